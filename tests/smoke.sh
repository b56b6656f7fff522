#!/bin/sh
# The main road with an installed firth, in a folder of its own: smoke.sh FIRTH [RUNTIME]. What the first has exported, the second
# uses: the firth of an environment with firth-runtime alone.
set -eu
firth=$1
"$firth" --version
"$firth" recipes > /dev/null
for number in $(seq 1 200); do
    echo "The old doctor found a small map number $number. The teacher saw a red bird and a book."
done > text.txt
for number in $(seq 1 20); do
    printf 'a lovely warm film %s\tgood\na dull cold film %s\tbad\n' "$number" "$number"
done > labels.tsv
"$firth" prepare text.txt --out corpus --layout line > /dev/null
"$firth" pretrain bert-tiny --corpus corpus --out bert --steps 5 > /dev/null
"$firth" fill bert "The old [MASK] found a map." > /dev/null
"$firth" finetune classify --base bert --train labels.tsv --out mood > /dev/null
"$firth" predict mood "a lovely film" | grep -q '"label"'
"$firth" finetune classify --base counts --train labels.tsv --out counted > /dev/null
if [ $# -gt 1 ]; then
    runtime=$2
    "$runtime" --version
    "$firth" export mood exported --to onnx --int8 > /dev/null
    "$firth" export bert table --to static > /dev/null
    "$firth" index text.txt --out index --model table > /dev/null
    echo "a lovely film" > asked.txt
    for made in exported counted; do
        "$runtime" predict "$made" asked.txt | grep -q '"label"'
    done
    "$runtime" encode table "a lovely film" | grep -q '"vector"'
    "$runtime" search index "small map" | grep -q map
    if "$runtime" predict mood asked.txt 2> refusal.txt; then exit 1; fi
    grep -q 'pip install firth' refusal.txt
fi
echo "smoke test passed"
