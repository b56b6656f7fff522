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
