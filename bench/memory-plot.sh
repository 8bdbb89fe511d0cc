#!/usr/bin/env bash
# Draws what memory.sh measured: memory-plot.sh CSV MEMORY_MIB INPUT_MIB > SVG
set -euo pipefail
awk -F, -v memory="$2" -v input="$3" '
    NR > 1 {
        n[$1]++; x[$1, n[$1]] = $2; y[$1, n[$1]] = $3
        if ($2 > right) right = $2
        if ($3 > top) top = $3
    }
    function px(seconds) { return 60 + seconds / right * 700 }
    function py(mib) { return 340 - mib / top * 300 }
    function line(who, colour, name, at,   i, points) {
        for (i = 1; i <= n[who]; i++) points = points sprintf("%.1f,%.1f ", px(x[who, i]), py(y[who, i]))
        printf "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"1.5\" points=\"%s\"/>\n", colour, points
        printf "<text x=\"%d\" y=\"20\" fill=\"%s\">%s</text>\n", at, colour, name
    }
    END {
        if (memory > top) top = memory
        top *= 1.05
        print "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 800 390\" font-family=\"sans-serif\" font-size=\"12\">"
        print "<rect width=\"800\" height=\"390\" fill=\"white\"/>"
        step = top > 800 ? 200 : top > 400 ? 100 : 50
        for (mib = 0; mib <= top; mib += step) {
            printf "<line x1=\"60\" x2=\"760\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"#ddd\"/>\n", py(mib), py(mib)
            printf "<text x=\"52\" y=\"%.1f\" text-anchor=\"end\">%d</text>\n", py(mib) + 4, mib
        }
        step = right > 600 ? 120 : right > 200 ? 60 : right > 60 ? 20 : 5
        for (s = 0; s <= right; s += step) printf "<text x=\"%.1f\" y=\"358\" text-anchor=\"middle\">%d</text>\n", px(s), s
        printf "<text x=\"410\" y=\"380\" text-anchor=\"middle\">seconds; MiB resident; %d MiB of input</text>\n", input
        printf "<line x1=\"60\" x2=\"760\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"#c00\" stroke-dasharray=\"6 4\"/>\n", py(memory), py(memory)
        printf "<text x=\"500\" y=\"20\" fill=\"#c00\">state.memory = %d MiB</text>\n", memory
        line("weir", "#06c", "Weir", 60)
        line("kafka-streams", "#a60", "Kafka Streams", 160)
        print "</svg>"
    }' "$1"
