/** What stands in the forms at first, in the language that the model reads, so that every tab shows something at once. */

import { language } from "./i18n.js";

const EXAMPLES = {
  en: {
    word: "king",
    first: "man",
    second: "king",
    third: "woman",
    map: "king queen man woman\nParis London Berlin Rome\ndog cat horse bird\none two three four",
    fill: "The {mask} barked at the cat in the garden.",
    contextWord: "bank",
    contextSentences: [
      "She sat on the bank of the river and read.",
      "The grass on the bank was still wet.",
      "He took money from the bank on Monday.",
      "The bank lent them money for the house.",
      "The boat was tied up at the bank.",
    ].join("\n"),
    similar: [
      "A man is playing the guitar.",
      "Somebody makes music.",
      "The price of bread has risen.",
      "Bread has become more expensive.",
    ].join("\n"),
    search: "Where was the king born?",
    layersSentence: "It is one of the best films that I have seen this year.",
    layersWord: "best",
    attention: "The animal did not cross the street because it was too tired.",
    generate: "Once upon a time",
    translate: "A little dog runs through the garden.",
    classify: "A quiet, wonderful film, and the best that I have seen this year.",
    classifySecond: "I liked the film very much.",
    tag: "Marie Curie was born in Warsaw and worked at the University of Paris.",
    question: "Where was Marie Curie born?",
    passage:
      "Marie Curie was born in Warsaw. At the age of twenty-four she went to Paris, where she studied physics and " +
      "mathematics and met her husband Pierre.",
  },
  zh: {
    word: "国王",
    first: "男人",
    second: "国王",
    third: "女人",
    map: "国王 女王 男人 女人\n北京 上海 巴黎 伦敦\n狗 猫 马 鸟\n一 二 三 四",
    fill: "今天的天气很{mask}，我们去公园散步。",
    contextWord: "苹果",
    contextSentences: [
      "他在市场上买了三个苹果。",
      "树上的苹果已经红了。",
      "苹果今天发布了新的手机。",
      "她每天早上吃一个苹果。",
      "他的手机是苹果的。",
    ].join("\n"),
    similar: ["一个男人在弹吉他。", "有人在演奏音乐。", "面包的价格上涨了。", "面包变贵了。"].join("\n"),
    search: "国王出生在哪里？",
    layersSentence: "中国政府十分重视经济发展。",
    layersWord: "经济",
    attention: "小狗没有过马路，因为它太累了。",
    generate: "从前有一座山，",
    translate: "一只小狗在花园里跑。",
    classify: "这部电影非常感人，是我今年看过的最好的电影。",
    classifySecond: "我很喜欢这部电影。",
    tag: "鲁迅出生在浙江绍兴，后来在北京大学教书。",
    question: "鲁迅出生在哪里？",
    passage: "鲁迅出生在浙江绍兴。他年轻的时候去日本学习医学，后来回国，在北京和厦门教书，写了许多小说和散文。",
  },
};

/** What the model reads; the page's language where it reads both or neither. */
const languageOf = (model) =>
  EXAMPLES[(model?.languages?.[0] ?? model?.reads)?.slice(0, 2).toLowerCase()] ?? EXAMPLES[language()];

/** An example for this model, from what it was trained on where that is known; {mask} is written as it reads it. */
export const example = (name, model) =>
  (model?.examples?.[name] ?? languageOf(model)[name]).replaceAll("{mask}", model?.mask ?? "[MASK]");

/** An image for this model; null where the server has none. */
export function exampleFile(name, model) {
  const coded = model?.examples?.[name];
  if (!coded) return null;
  const file = new File([Uint8Array.from(atob(coded), (letter) => letter.charCodeAt(0))], "example.png", { type: "image/png" });
  file.isExample = true;
  return file;
}
