#!/bin/sh
# The main road with an installed firth: smoke.sh PATH_TO_FIRTH, in a folder of its own.
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
echo "smoke test passed"
