"""How a timeline looks, by day and by night."""

STYLE = """
text{font-family:system-ui,-apple-system,"Segoe UI",Roboto,sans-serif;font-size:12px;fill:#24292f}
.title{font-size:17px;font-weight:600}
.name{text-anchor:end}
.count{text-anchor:end;font-variant-numeric:tabular-nums}
.small{text-anchor:end;font-size:10.5px}
.start{text-anchor:start}
.when{font-size:10.5px}
.muted,.small,.when{fill:#68717b}
.strong{fill:#24292f;font-weight:600}
.paper{fill:#fdfdfc}
.hair,.hour,.day,.limit{fill:none;stroke:#eceeef;stroke-width:1}
.day{stroke:#d5d9dd}
.limit{stroke:#c3c9cf;stroke-dasharray:2 3}
.quiet{fill:#eceff3}
.tick{fill:#2f6690}
.band1{fill:#2f6690;fill-opacity:.22}
.band2{fill:#2f6690;fill-opacity:.38}
.band3{fill:#2f6690;fill-opacity:.56}
.band4{fill:#2f6690;fill-opacity:.78}
.skip{fill:#c8553d}
.level{fill:#81a594;fill-opacity:.75}
.full{fill:#d08c60;fill-opacity:.85}
.budget{fill:#8d7fb3;fill-opacity:.6}
.over{fill:#c8553d;fill-opacity:.6}
.active{fill:#2f6690}
.idle{fill:#8fb3cc}
.dormant{fill:#dbe4ea}
@media (prefers-color-scheme:dark){
text{fill:#dfe3e7}
.muted,.small,.when{fill:#8b949e}
.strong{fill:#dfe3e7}
.paper{fill:#15181c}
.hair,.hour{stroke:#23282e}
.day{stroke:#39414a}
.limit{stroke:#4a535c}
.quiet{fill:#1f252c}
.tick,.band1,.band2,.band3,.band4{fill:#7db3d8}
.skip{fill:#e8836b}
.level{fill:#6f9e8a}
.full{fill:#d9a06f}
.budget{fill:#a394cf}
.over{fill:#e8836b}
.active{fill:#7db3d8}
.idle{fill:#40647f}
.dormant{fill:#28323b}
}
"""
