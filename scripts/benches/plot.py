"""The README's picture: the longest SET of each 20 ms around one save, a strip for each server.

Each round has a new server, filled, with one save behind it. The picture shows the round whose
longest SET while saving is the median. Nobody compresses, which costs rivals the core that serves.
"""

import math
import pathlib
import statistics

from benches.load import fill_strings, load, page_words, phase, set_words, verify, wait_for
from benches.servers import RIVALS, Server, in_turns, say

FLAGS = ["--rdbcompression", "no"]
STEP_MS = 20
# Seconds shown before the save.
BEFORE = 2
# Pixels: the picture, a strip, and where the data lie in them.
WIDTH, STRIP, LEFT, RIGHT, TOP, BOTTOM = 720, 104, 56, 708, 46, 44
# Milliseconds at the lower edge of a strip, and at the upper one at least.
LOWEST, HIGHEST = 0.1, 100
COLOURS = {"redis": "s1", "redis-8": "s4", "valkey": "s5", "imprint": "s0"}
SHEET = (
    "svg{color:#222;background:#fff}text{font:14px system-ui,sans-serif;fill:currentColor}"
    "text.title{font-weight:600;font-size:15px}text.name{font-weight:600}text.small{font-size:13px}"
    ".grid{stroke:currentColor;stroke-opacity:.16}.shade{fill:currentColor;fill-opacity:.12}"
    ".l{fill:none;stroke:currentColor;stroke-width:1.4;stroke-linejoin:round}"
    ".s0{color:#0072b2}.s1{color:#d55e00}.s4{color:#b86fa0}.s5{color:#d08a00}"
    "@media(prefers-color-scheme:dark){svg{color:#e8e8e8;background:#16181c}"
    ".s0{color:#5a9bf0}.s1{color:#ff8552}.s4{color:#ea9fd0}.s5{color:#f2b632}}")


def measure(options):
    """By contender: for each round the version, the save's length in seconds, the longest SET
    while saving in milliseconds, and [seconds since the save began, longest SET in milliseconds]
    for each step."""
    results = {}
    for turn in range(options.rounds):
        for name in in_turns(options.contenders, turn):
            server = Server(name, options, FLAGS)
            try:
                results.setdefault(name, []).append(measure_round(server, options, turn))
            finally:
                server.stop()
        say(f"plot: round {turn + 1} of {options.rounds}")
    return results


def measure_round(server, options, turn):
    fill_strings(server, options)
    server.client.call("BGSAVE")
    wait_for("the first save", 600, lambda: not server.saving())
    words = set_words(options, 1.9 * options.idle_seconds)
    words += ["--bgsave-every", f"{round(options.idle_seconds * 1000)}ms"]
    report = load(server, options, *words, *page_words(options, "plot", server.name, turn))
    wait_for("a save", 600, lambda: not server.saving())
    server.saved_well()
    verify(server, options)
    save = report["saves"][0]
    if save["to_ns"] is None:
        raise SystemExit(f"{server.name}: the save outlasts the load: give more --idle-seconds")
    began, took = save["from_ns"] / 1e9, (save["to_ns"] - save["from_ns"]) / 1e9
    points = steps(report["trace"], began)
    field = "valkey_version" if server.name == "valkey" else "redis_version"
    return {"version": server.client.info(field, section="server")[0], "seconds": took,
            "longest_ms": phase(report, "saving")["latency"]["max_us"] / 1e3, "points": points}


def steps(trace, began):
    """The longest of each step; bins of the load are shorter."""
    width = max(1, STEP_MS // trace["bin_ms"])
    longest = trace["max_us"]
    points = []
    for start in range(0, len(longest), width):
        known = [us for us in longest[start:start + width] if us is not None]
        if known:
            points.append((start * trace["bin_ms"] / 1e3 - began, max(known) / 1e3))
    return points


def median_round(rounds):
    middle = statistics.median_low(one["longest_ms"] for one in rounds)
    return next(one for one in rounds if one["longest_ms"] == middle)


def report(results, options):
    shown = {name: median_round(rounds) for name, rounds in results.items()}
    print(f"\n## {heading(options)}\n")
    print("| server | longest SET while saving, ms | save, s |\n|---|---|---|")
    for name, one in shown.items():
        print(f"| {label(name, one)} | {one['longest_ms']:.1f} | {one['seconds']:.1f} |")
    if options.svg:
        pathlib.Path(options.svg).write_text(picture(shown, options))


def heading(options):
    megabytes = options.keys * options.value_size / 1e6
    return (f"Longest SET of each {STEP_MS} ms while {megabytes:,.0f} MB are saved (shaded), "
            f"{options.rate:,} SETs/s")


def label(name, one):
    return f"{name.removesuffix('-8')}-server {one['version']}" if name in RIVALS else "Stillframe"


def picture(shown, options):
    after = 0.9 * options.idle_seconds
    highest = max(HIGHEST, *(ms for one in shown.values() for _, ms in one["points"]))
    x = lambda at: LEFT + (at + BEFORE) / (BEFORE + after) * (RIGHT - LEFT)
    height = TOP + STRIP * len(shown) + BOTTOM - 20
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
        f'width="{WIDTH}" height="{height}" aria-labelledby="t"><title id="t">{heading(options)}: '
        + "; ".join(f"{label(name, one)} {one['longest_ms']:.1f} ms" for name, one in shown.items())
        + f'</title><style>{SHEET}</style>'
        f'<text class="title" x="8" y="20">{heading(options)}</text><text class="small" x="8" y="38">latency [ms], logarithmic</text>']
    for index, (name, one) in enumerate(shown.items()):
        parts.append(strip(name, one, TOP + STRIP * index, x, after, highest))
    bottom = TOP + STRIP * len(shown) - 8
    for at in range(-BEFORE, math.floor(after) + 1):
        parts.append(f'<text class="small" text-anchor="middle" x="{x(at):.1f}" y="{bottom + 14}">'
                     f'{at}</text>')
    parts.append(f'<text class="small" text-anchor="middle" x="{(LEFT + RIGHT) / 2}" '
                 f'y="{bottom + 30}">seconds since BGSAVE</text></svg>\n')
    return "".join(parts)


def strip(name, one, top, x, after, highest):
    low, high = math.log(LOWEST), math.log(highest)
    bottom, room = top + STRIP - 8, STRIP - 28
    y = lambda ms: bottom - (math.log(max(ms, LOWEST)) - low) / (high - low) * room
    parts = []
    for ms in (0.1, 1, 10, 100):
        at = f"{y(ms):.1f}"
        parts.append(f'<line class="grid" x1="{LEFT}" y1="{at}" x2="{RIGHT}" y2="{at}"/><text '
                     f'class="small" text-anchor="end" x="{LEFT - 6}" y="{at}" dy="4">{ms}</text>')
    line = " ".join(f"{x(at):.1f},{y(ms):.1f}" for at, ms in one["points"]
                    if -BEFORE <= at <= after)
    width = x(min(one["seconds"], after)) - x(0)
    parts.append(
        f'<g class="{COLOURS.get(name, "s4")}"><rect class="shade" x="{x(0):.1f}" '
        f'y="{bottom - room}" width="{width:.1f}" height="{room}"/><polyline class="l" '
        f'points="{line}"/><text class="name" x="{LEFT + 4}" y="{bottom - room - 4}">'
        f"{label(name, one)}: {one['longest_ms']:.1f} ms at most</text></g>")
    return "".join(parts)
