"""The words of reports in Chinese: headings, names of columns, cards, axes and notes. What is not here stays as it is, such as
labels and texts of the user's own."""

import html
import re
from collections.abc import Callable

_METRICS = {
    "accuracy": "准确率",
    "macro f1": "宏平均 F1",
    "f1": "F1",
    "weighted f1": "加权 F1",
    "matthews": "马修斯相关",
    "exact": "完全匹配",
    "loss": "损失",
    "perplexity": "困惑度",
    "pseudo perplexity": "伪困惑度",
    "masked accuracy": "掩码准确率",
    "masked loss": "掩码损失",
    "next sentence accuracy": "下一句准确率",
    "precision": "精确率",
    "recall": "召回率",
    "spearman": "斯皮尔曼相关",
    "pearson": "皮尔逊相关",
    "bits per byte": "每字节比特数",
    "bleu": "BLEU",
    "chrf": "chrF",
    "rouge l": "ROUGE-L",
    "v measure": "V 值",
    "masked": "掩码词元损失",
    "halves": "半段损失",
    "halves accuracy": "半段准确率",
    "pairs": "句对损失",
    "pairs accuracy": "句对准确率",
    "next sentence": "下一句损失",
    "sentence order": "句序损失",
    "sentence order accuracy": "句序准确率",
    "sentence distance": "句间距离损失",
    "sentence distance accuracy": "句间距离准确率",
    "generator": "生成器损失",
    "generator accuracy": "生成器准确率",
    "replaced": "替换检测损失",
    "replaced accuracy": "替换检测准确率",
    "replaced recall": "替换检测召回率",
    "replaced share": "被替换词元的比例",
    "targets": "目标词元损失",
    "targets accuracy": "目标词元准确率",
    "bidirectional loss": "双向损失",
    "left to right loss": "从左到右损失",
    "right to left loss": "从右到左损失",
    "seq2seq loss": "序列到序列损失",
    "forward": "前向损失",
    "backward": "后向损失",
    "forward perplexity": "前向困惑度",
    "backward perplexity": "后向困惑度",
    "perplexity token": "每词元困惑度",
    "perplexity word": "每词困惑度",
    "perplexity character": "每字符困惑度",
    "log z mean": "log Z 的均值",
    "log z spread": "log Z 的标准差",
    "text loss": "文本损失",
    "text accuracy": "文本准确率",
    "micro f1": "微平均 F1",
    "exact match": "完全匹配",
    "mean squared error": "均方误差",
    "rouge 1": "ROUGE-1",
    "rouge 2": "ROUGE-2",
    "average precision": "平均精确率",
    "ndcg at 10": "nDCG@10",
    "mrr at 10": "MRR@10",
    "recall at 1": "召回率@1",
    "recall at 10": "召回率@10",
    "recall at 100": "召回率@100",
    "coverage": "覆盖率",
    "covered accuracy": "覆盖部分的准确率",
}
_TASKS = {"classify": "分类", "score": "打分", "tag": "标注", "answer": "问答", "write": "写作", "embed": "句向量"}
_WORDS = {
    **_METRICS,
    "firth run": "Firth 训练",
    "firth task": "Firth 任务",
    "firth comparison": "Firth 比较",
    "firth probe": "Firth 探测",
    "parameters": "参数",
    "steps": "步数",
    "step": "步",
    "tokens seen": "读过的词元",
    "epochs": "轮数",
    "epoch": "轮",
    "time": "时间",
    "tokens/s": "词元/秒",
    "words/s": "词/秒",
    "words": "词",
    "dimensions": "维数",
    "training": "训练",
    "examples": "样本",
    "over seeds": "多个随机种子",
    "seed": "随机种子",
    "seeds": "随机种子数",
    "batch": "批大小",
    "rate": "学习率",
    "learning rate": "学习率",
    "speed": "速度",
    "held-out": "留出部分",
    "held-out perplexity": "留出困惑度",
    "held-out scores": "留出成绩",
    "training loss": "训练损失",
    "tried": "尝试过的方法",
    "by label": "按标签",
    "true": "真实",
    "predicted": "预测",
    "text": "文本",
    "share": "比例",
    "every seed": "每个种子",
    "before": "之前",
    "after": "之后",
    "every training": "每次训练",
    "weight of each layer": "各层的权重",
    "confusions (rows: true, columns: predicted)": "混淆矩阵（行：真实，列：预测）",
    "reliability": "可靠性",
    "probability of the predicted label": "预测标签的概率",
    "share that is right": "正确的比例",
    "dev examples": "开发集样本",
    "no dev file: scores, confusions and errors are those of cross-validation on the training examples.": "没有开发集：成绩、混淆与错误来自训练样本上的交叉验证。",
    "labels that are probably wrong": "可能标错的样本",
    "looks like": "更像",
    "probability that it is wrong": "标错的概率",
    "ideal": "理想",
    "mean probability": "平均概率",
    "with --min-confidence": "使用 --min-confidence 时",
    "at least": "至少",
    "texts with a label": "得到标签的文本",
    "accuracy on them": "其中的准确率",
    "worst errors": "最严重的错误",
    "errors by kind": "按类型划分的错误",
    "kind": "类型",
    "count": "数量",
    "example": "例子",
    "use it": "怎样使用",
    "use the best": "使用最好的模型",
    "settings": "设置",
    "all settings and versions": "全部设置和版本",
    "frequent words, near what they resemble": "常用词，与相似的词相邻",
    "neighbours": "近邻",
    "translations, and what was looked at": "译文，以及模型看了哪里",
    "best": "最好",
    "cheapest within its error": "误差范围内最省",
    "labelled examples": "带标签样本",
    "budget": "时间预算",
    "± seeds": "± 种子",
    "pre-training": "预训练",
    "fine-tuning": "微调",
    "ms/text": "毫秒/条",
    "disk": "磁盘",
    "seconds": "秒",
    "part of speech": "词性",
    "senses, f1": "词义，F1",
    "layer": "层",
    "reference": "参照",
    "control task": "对照任务",
    "tag of the word": "词的常用标签",
    "nearest sense": "最近的词义",
    "first sense": "第一个词义",
    "mean attention distance of each head, in tokens": "每个头的平均注意力距离（词元）",
    "attention": "注意力",
    "majority": "多数类",
    "part of speech: accuracy": "词性：准确率",
    "selectivity": "选择性",
    "senses: f1": "词义：F1",
    "where there is a choice": "有多个词义可选时",
    "words not in training": "训练中没有的词",
    "attention: distance in tokens": "注意力：距离（词元）",
    "entropy in nats": "熵（奈特）",
    "share on itself": "看自身的比例",
    "share on the token before": "看前一个词元的比例",
    "share on the token after": "看后一个词元的比例",
    "share on special tokens": "看特殊词元的比例",
    "even": "均匀注意力",
    "known": "认识的比例",
    "worst errors side by side": "最严重的错误对照",
    "words near each other": "相近的词",
    "score": "成绩",
    "(no topic)": "（不属于任何主题）",
    "attention entropy of each head, in nats": "每个头的注意力熵（奈特）",
    "documents": "文档",
    "word": "词",
    "setting": "设置",
    "value": "值",
    "how far gradients reach back": "梯度能传回多远",
    "the size of the gradient of the last step's loss at the state of each step before it. a line that falls means that distant words are not learned from.": "最后一步的损失对之前每一步状态的梯度大小。曲线下降说明远处的词学不到。",
    "steps back": "往回的步数",
    "loss by step": "各步的损失",
    "no curve": "没有曲线",
    "seconds of pre-training and one fine-tuning on this machine; bars are 95 % intervals.": "本机上预训练加一次微调的秒数；竖线为 95 % 区间。",
    "the colour is the root of the attention weight, from 0 to 1.": "颜色是注意力权重的平方根，从 0 到 1。",
    "a few examples only: the interval is wide.": "样本很少：区间很宽。",
    "would more labels help?": "更多标注有帮助吗？",
    "cross-validation": "交叉验证",
    "chosen": "选中",
    "counts": "词频",
    "linear": "线性模型",
    "contrastive": "对比学习",
    "tuned": "微调",
    "missed": "漏掉",
    "an entity that was not found": "没有找到的实体",
    "invented": "多出",
    "none there, but one was found": "本来没有，却找到了",
    "type": "类型错误",
    "the right stretch with another type": "位置对，类型错",
    "border": "边界错误",
    "the right type, but it begins or ends elsewhere": "类型对，起止位置不对",
    **_TASKS,
}
_HELPS = {"help": "有帮助", "help a little": "略有帮助", "hardly help": "几乎没有帮助"}
_Words = str | Callable[[re.Match[str]], str | None]
_PATTERNS: list[tuple[str, _Words]] = [
    (r"recipe (.+)", r"配方 \1"),
    (r"layer (\d+)", r"第 \1 层"),
    (r"at the (.+)", r"在 \1"),
    (r"held-out (.+)", lambda found: f"留出{chinese(found.group(1)) or found.group(1)}"),
    (r"dev (.+) by labelled examples", lambda found: f"带标签样本数与开发集{_name(found.group(1))}"),
    (r"dev (.+)", lambda found: f"开发集{_name(found.group(1))}"),
    (r"(.+), 95 %", lambda found: f"{_name(found.group(1))}，95 % 区间"),
    (r"(.+), mean ± deviation", lambda found: f"{_name(found.group(1))}，均值 ± 标准差"),
    (r"scored on (.+)", lambda found: f"在 {found.group(1)} 上评分"),
    (r"(.+) against cost", lambda found: f"{_name(found.group(1))}与代价"),
    (r"(.+) against labels", lambda found: f"{_name(found.group(1))}与带标签样本数"),
    (
        r"(\w+) on (.+)",
        lambda found: f"{_TASKS[found.group(1)]}，基于 {found.group(2)}" if found.group(1) in _TASKS else None,
    ),
    (r"only (\d+) examples: the interval is wide\.", r"只有 \1 条样本：区间很宽。"),
    (r"expected calibration error ([\d.]+)\.", r"期望校准误差为 \1。"),
    (r"([\d,]+) in all: suspects\.tsv in the folder of the run\.", r"共 \1 条：见训练文件夹中的 suspects.tsv。"),
    (
        r"one column per head, darker is more; uniform attention has ([\d.]+)\.",
        r"每个头一列，颜色越深值越大；均匀注意力为 \1。",
    ),
    (r"(.+); layer 0 is the token layer", r"\1；第 0 层是词元层"),
    (r"base on the task's text, (.+) epochs \(held-out part\)", r"底座读任务文本 \1 轮（留出部分）"),
    (r"(.+) is never predicted\.", r"从未预测出 \1。"),
    (r"\(step ([\d,]+)\)", r"（第 \1 步）"),
    (r"(\d+) of (\d+) epochs", r"共 \2 轮，取第 \1 轮"),
    (r"weights ([\d.]+) and ([\d.]+), gain (-?[\d.]+)", r"权重 \1 和 \2，提高 \3"),
    (
        r"given up after fold (\d+) of (\d+): ([\d.]+) there, (\w+) ([\d.]+)",
        lambda found: (
            f"{found.group(2)} 折中的第 {found.group(1)} 折后放弃：在其上为 {found.group(3)}，"
            f"{_name(found.group(4))} 为 {found.group(5)}"
        ),
    ),
    (
        r"not t(?:uned|ried): an epoch takes ([\d.a-z]+), too long for a budget of ([\d.a-z]+)",
        r"未微调：一轮需 \1，超出预算 \2",
    ),
    (r"not tried: ([\d,]+) batches take too long for a budget of ([\d.a-z]+)", r"未尝试：\1 个批次超出预算 \2"),
    (
        r"not tried: from ([\d,]+) examples or fewer contrastive pairs teach more",
        r"未尝试：样本不超过 \1 个时对比学习更有效",
    ),
    (r"not tried: ([\d.]+) is reached without", r"未尝试：不微调已达到 \1"),
    (
        r"more labels would (help|help a little|hardly help): with ([\d,]+) about (.+) (-?[\d.]+) where it is (-?[\d.]+) now \((\w+)\)\.",
        lambda found: (
            f"更多标注{_HELPS[found.group(1).lower()]}：有 {found.group(2)} 条时{_name(found.group(3))}约为 {found.group(4)}，"
            f"现在为 {found.group(5)}（{_name(found.group(6))}）。"
        ),
    ),
    (
        r"a linear probe on ([\d,]+) words, tested on ([\d,]+), ([\d,]+) tags\. the control task gives every word type a fixed "
        r"random tag; the gap between both lines is the selectivity\.",
        r"线性探针：用 \1 个词训练，在 \2 个词上测试，共 \3 种标签。对照任务给每个词一个固定的随机标签，两条线之差即选择性。",
    ),
    (
        r"the nearest mean vector of a sense, ([\d,]+) words in training, ([\d,]+) in the test; ([\d,]+) of these had a choice\.",
        r"最近的词义平均向量：训练 \1 个词，测试 \2 个词，其中 \3 个有多个词义可选。",
    ),
    (
        r"in training the loss is over the right word and ([\d,]+) drawn ones; held-out text is scored over all\.",
        r"训练时的损失只在正确的词和抽取的 \1 个词上计算；验证集上则在全部词上计算。",
    ),
    (r"(.+) \(best, cheapest\)", r"\1（最好，也最省）"),
    (r"(.+) \(best\)", r"\1（最好）"),
    (r"(.+) \(cheapest\)", r"\1（最省）"),
    (r"([\d,]+) topics of ([\d,]+) documents", r"\2 篇文档的 \1 个主题"),
    (r"(.+) by (.+)", lambda found: _chart(found.group(1), found.group(2))),
    (r"[a-z][a-z/ -]* -?[\d.e+,-]+(?:, [a-z][a-z/ -]* -?[\d.e+,-]+)*", lambda found: _measured(found.group())),
    (r"(\w+) \+ (\w+)", lambda found: _both(found.group(1), found.group(2))),
]


def _measured(said: str) -> str | None:
    """Names with a number each, if all names are known: "training 1.763, held-out 7.327"."""
    parts = [part.rpartition(" ") for part in said.split(", ")]
    names = [chinese(name) for name, _, _ in parts]
    if any(name is None for name in names):
        return None
    return "，".join(f"{name} {number}" for name, (_, _, number) in zip(names, parts, strict=True))


def _chart(up: str, across: str) -> str | None:
    """What a chart shows, for those who hear the page."""
    return None if chinese(up) is None or chinese(across) is None else f"{chinese(up)}（横轴：{chinese(across)}）"


def _both(one: str, other: str) -> str | None:
    return None if chinese(one) is None or chinese(other) is None else f"{chinese(one)} + {chinese(other)}"


_AS_WRITTEN = {"f1": "F1", "bleu": "BLEU", "chrf": "chrF", "spearman": "Spearman", "pearson": "Pearson"}
_AS_WRITTEN |= {"matthews": "Matthews", "rouge 1": "ROUGE-1", "rouge 2": "ROUGE-2", "rouge l": "ROUGE-L"}
_PROPER = re.compile(rf"\b(?:{'|'.join(_AS_WRITTEN)})\b", re.IGNORECASE)

_HOLDERS = r"h2|h3|th|td|summary|caption|text|p|div|b|span|li"
_NODE = re.compile(rf"(<(?P<tag>{_HOLDERS})(?P<rest>(?:\s[^<>]*)?)>)(?P<said>[^<>]+)(?=<)")


_PICTURE = re.compile(r'<svg([^>]*) role="img" aria-label="([^"]*)"')  # a label has one language, a paragraph two


def _name(name: str) -> str:
    return chinese(name) or name


def chinese(said: str) -> str | None:
    """The same in Chinese; None where there is no need, or no word for it."""
    plain = " ".join(said.replace("_", " ").split())
    found = _WORDS.get(plain.lower())
    if found is not None:
        return found
    for pattern, words in _PATTERNS:
        if (match := re.fullmatch(pattern, plain, re.IGNORECASE)) is not None:
            return match.expand(words) if isinstance(words, str) else words(match)
    return None


def in_both_languages(body: str) -> str:
    """HTML in which headings, names and notes stand twice, as ``en`` and ``zh``; cells of tables and code are the user's."""

    def both(found: re.Match[str]) -> str:
        said = html.unescape(found["said"])
        other = chinese(said)
        if other is None:
            return found.group()
        english = _PROPER.sub(lambda name: _AS_WRITTEN[name.group().lower()], found["said"])
        tag = "tspan" if found["tag"] == "text" else "span"
        return (
            f'{found.group(1)}<{tag} class="en">{english}</{tag}>'
            f'<{tag} class="zh" lang="zh">{html.escape(other)}</{tag}>'
        )

    body = _PICTURE.sub(r'<p class="unseen">\2</p><svg\1 aria-hidden="true"', body)
    parts = re.split(r'(<pre>.*?</pre>|<td(?! class="said")[^>]*>.*?</td>|<code>.*?</code>)', body, flags=re.DOTALL)
    return "".join(part if number % 2 else _NODE.sub(both, part) for number, part in enumerate(parts))


_TABLE = re.compile(
    r"<table(?P<looks>[^>]*)>(?P<head><tr>(?:<th[^>]*>[^<]*</th>)+</tr>)(?P<rows>.*?)</table>", re.DOTALL
)


def reflowing(body: str) -> str:
    """HTML whose tables with a head become lists of rows on narrow screens: each cell says the name of its column."""

    def table(found: re.Match[str]) -> str:
        names = [html.unescape(name) for name in re.findall(r"<th[^>]*>([^<]*)</th>", found["head"])]
        if len(names) < 3:
            return found.group()

        def row(line: re.Match[str]) -> str:
            columns = iter(names)

            def cell(one: re.Match[str]) -> str:
                name = next(columns, "")
                label, other = (html.escape(text, quote=True) for text in (name, _name(name)))
                return f'<td{one["looks"]} data-label="{label}" data-zh="{other}">'

            return re.sub(r"<td(?P<looks>[^>]*)>", cell, line.group())

        rows = re.sub(r"<tr>.*?</tr>", row, found["rows"], flags=re.DOTALL)
        return f'<table class="stacks"{found["looks"]}><thead>{found["head"]}</thead><tbody>{rows}</tbody></table>'

    return _TABLE.sub(table, body)
