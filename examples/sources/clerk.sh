#!/bin/sh
# Stands for an agent: reads its prompt, fails at letters that ask for it, and answers all others. The item is in $ROTA_ITEM_FILE too.
prompt=$(cat)
letter=$(printf '%s\n' "$prompt" | sed -n 's/^Work item: //p')
case $prompt in
  *"please fail"*) echo "no answer to: $letter" >&2; exit 1 ;;
esac
echo "answered: $letter"
