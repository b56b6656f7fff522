"""A few sentences of many languages, with their words as a reader of the language marks them (``|`` between sentences).

Where a script puts no spaces between words, the words are those that Firth promises: runs of one script, clusters.
"""

TEXTS = {
    "Hindi": ["मैं घर जा रहा हूँ ।", "क्या आप ठीक हैं ?", "हाँ , बिल्कुल ॥"],
    "Bengali": ["আমি বাংলায় গান গাই ।", "তুমি কেমন আছো ?", "ভালো আছি ।"],
    "Thai": ["เมื่ อ วา น นี้ ฉั น ไป โร ง เรี ย น"],
    "Khmer": ["ខ្ញុំ រៀ ន ភា សា ខ្មែ រ ។", "អ រ គុ ណ ។"],
    "Myanmar": ["မြ န် မာ စ ကား ။", "နေ ကော င်း လား ။"],
    "Japanese": ["ガラス の 靴 を 履 いて 、 東京 タワー へ 行 きました 。", "ラーメン は 好 きですか ？", "はい ！"],
    "Vietnamese": ["Tôi không biết tiếng Việt .", "Bạn có khỏe không ?", "Cảm ơn !"],
    "German": ["Über den Dächern hört man schöne Lieder .", "Wo ist die Straße ?", "Dort drüben !"],
    "French": ["L'été dernier , j'ai mangé à l'hôtel .", "Où êtes - vous ?", "Ça va ."],
    "Arabic": ["كَتَبَ الطَّالِبُ رِسَالَةً .", "هَلْ أَنْتَ بِخَيْرٍ ؟", "نَعَمْ ، شُكْرًا ."],
    "Urdu": ["میں اردو پڑھتا ہوں ۔", "آپ کیسے ہیں ؟", "ٹھیک ہوں ۔"],
    "Persian": ["من می\u200cخواهم کتاب\u200cها را بخوانم .", "چرا نه ؟", "خوب است ."],
    "Russian": ["Мой ёжик живёт в йогурте .", "Где мой чай ?", "Вот он !"],
    "Korean": ["저는 한국어를 공부합니다 .", "잘 지내세요 ?", "네 !"],
    "Greek": ["Ο μικρός πρίγκιπας ταξίδεψε μακριά .", "Πού πας \u037e", "Μαΐου ήλιος ."],
    "Hebrew": ["שָׁלוֹם עוֹלָם , אֲנִי לוֹמֵד עִבְרִית .", "מַה שְׁלוֹמְךָ ?", "טוֹב !"],
    "Tamil": ["நான் தமிழ் படிக்கிறேன் .", "நீங்கள் எப்படி இருக்கிறீர்கள் ?", "நன்றி ."],
    "Armenian": ["Ես սովորում եմ հայերեն ։", "Շնորհակալություն ։"],
    "Amharic": ["እኔ አማርኛ እማራለሁ ።", "አመሰግናለሁ ።"],
}
"""Words with spaces between them, a string for each sentence."""
UNSPACED = ("Thai", "Khmer", "Myanmar", "Japanese")


def natural(language: str) -> str:
    """The text as it is written: no space before a mark, none between words of scripts without them."""
    sentences = []
    for sentence in TEXTS[language]:
        if language in UNSPACED:
            sentences.append(sentence.replace(" ", ""))
            continue
        for mark in ".,!?।॥؟،۔\u037e։።":
            sentence = sentence.replace(f" {mark}", mark)
        sentences.append(sentence.replace(" - ", "-"))
    return ("" if language in UNSPACED else " ").join(sentences)


SEGMENTED = {
    "Thai": ["เมื่อวาน นี้ ฉัน ไป โรงเรียน", "เขา กิน ข้าว กับ เพื่อน", "วันนี้ อากาศ ร้อน มาก", "ผม ชอบ อ่าน หนังสือ ที่ บ้าน"],
    "Lao": ["ຂ້ອຍ ມັກ ກິນ ເຂົ້າ", "ລາວ ໄປ ໂຮງຮຽນ", "ພວກເຮົາ ຢູ່ ປະເທດ ລາວ"],
    "Khmer": ["ខ្ញុំ រៀន ភាសាខ្មែរ ។", "គាត់ ទៅ ផ្សារ ។", "យើង ចូលចិត្ត អាន សៀវភៅ ។"],
    "Myanmar": ["ကျွန်တော် မြန်မာ စကား ကို လေ့လာ နေ ပါ တယ် ။", "သူ ကျောင်း သွား တယ် ။"],
    "Japanese": [
        "ガラス の 靴 を 履い て 、 東京 タワー へ 行き まし た 。",
        "ラーメン は 好き です か ？",
        "国立 大学 で 日本 語 を 勉強 し て い ます 。",
        "私 は 学生 です 。",
    ],
}
"""Sentences of scripts without spaces, with the words of a reader between spaces."""
TRADITIONAL = {
    "他在臺灣大學學習計算機科學。": "他在台湾大学学习计算机科学。",
    "這個開發團隊來自臺北市，並且參加了國際會議。": "这个开发团队来自台北市，并且参加了国际会议。",
    "總統府發言人表示經濟發展迅速。": "总统府发言人表示经济发展迅速。",
    "我們應該認真對待環境問題。": "我们应该认真对待环境问题。",
    "醫生說病人已經離開醫院。": "医生说病人已经离开医院。",
}
"""Chinese in traditional script, and the same in simplified script."""
