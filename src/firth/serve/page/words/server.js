/** What the server says, in the page's language. It speaks English; what is not here stays as it is. */

import { language } from "../i18n.js";

const NAME = "['‘](.+?)['’]";
/** [the sentence in English, with groups; the same in Chinese, with $1 …]; the first that fits counts. */
const CHINESE = [
  [`^${NAME}: not in the vocabulary(.*)$`, "词表中没有“$1”。"],
  [`^the word ${NAME} is not in the vocabulary.*$`, "词表中没有“$1”这个词。"],
  [`^the word ${NAME} is not in the sentence; its words are: (.*)$`, "句子里没有“$1”这个词；句中的词有：$2"],
  ["^(.*)a map needs at least two words that the model knows: give other words$", "画图至少需要模型认识的两个词：请换几个词。"],
  ["^(\\d+) ?% of the tokens are unknown to the model.*$", "文本中 $1 % 的词元是模型不认识的：结果意义不大，请换成它所学语言的文本。"],
  ["^the text is empty.*$", "文本是空的：请写几个词。"],
  ["^there is no text to explain.*$", "没有可解释的文本：请写几个词。"],
  ["^there is no word in this text.*$", "文本里没有词：请写几个词。"],
  ["^no mask in the text.*$", "文本里没有空白：请点击一个词把它遮住。"],
  ["^no answer within ([\\d.]+) s.*$", "$1 秒内没有得到结果：请减少内容，或稍后再试。"],
  ["^(\\d+) requests are waiting already.*$", "已有 $1 个请求在排队：请稍后再试。"],
  ["^too many requests at once.*$", "同时的请求太多：请稍后再试。"],
  ["^the server is stopping.*$", "服务器正在停止：请等它恢复后再试。"],
  [`^there is no model ${NAME}.*$`, "没有名为“$1”的模型。"],
  [`^the model ${NAME} cannot do this \\((.+?)\\).*$`, "模型“$1”不能做这件事（$2）。"],
  [`^the model ${NAME} reads (\\w+): give these$`, "模型“$1”读取的是 $2。"],
  ["^the body is larger than ([\\d,]+) bytes.*$", "内容超过 $1 字节：请少发送一些。"],
  ["^([\\d,]+) bytes of text, more than ([\\d,]+).*$", "文本有 $1 字节，超过 $2：请少发送一些。"],
  ["^(\\d+) texts, more than (\\d+).*$", "共 $1 条文本，超过 $2 条：请少发送一些。"],
  ["^the answer would have ([\\d,]+) numbers, more than ([\\d,]+): shorten the text$", "结果会有 $1 个数，超过 $2：请缩短文本。"],
  [`^no column ${NAME}.*$`, "没有名为“$1”的列。"],
  ["^something is wrong inside the server.*$", "服务器内部出错：原因在它的日志里。"],
  ["^(.*)not a whole (png|jpeg|webp)(.*)$", "图像文件（$2）不完整：请换一个文件。"],
  ["^([\\d,]+) documents: topics need at least (\\d+)$", "只有 $1 篇文档：划分主题至少需要 $2 篇。"],
  ["^([\\d,]+) documents: at most ([\\d,]+) are grouped at once.*$", "共 $1 篇文档，一次最多分组 $2 篇：请用 firth topics 处理其中一部分。"],
  ["^an index of texts is asked with a question.*$", "文本索引要用问题来查找：请写几个词。"],
  ["^beams: (.*)$", "束数：$1"],
].map(([pattern, text]) => [new RegExp(pattern, "su"), text]);

export function inLanguage(sentence) {
  if (language() !== "zh") return sentence;
  const found = CHINESE.find(([pattern]) => pattern.test(sentence));
  return found === undefined ? sentence : sentence.replace(found[0], found[1]);
}
