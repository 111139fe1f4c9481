"""Processor time of the thread that runs commands, by request, with and without I/O threads."""

import pathlib

from benches.load import load
from benches.servers import Server, in_turns, say, spread

CLIENTS = (50, 1000)


def measure(options):
    """By clients and I/O threads, of each round: microseconds of the command thread and of all
    threads for a request, and requests a second."""
    counts = [1, *options.io_threads]
    results = {}
    for turn in range(options.rounds):
        for clients in CLIENTS:
            for count in in_turns(counts, turn):
                figures = measure_one(count, clients, turn, options)
                by_count = results.setdefault(str(clients), {})
                by_count.setdefault(str(count), []).append(figures)
        say(f"threads: round {turn + 1} of {options.rounds}")
    return results


def measure_one(count, clients, turn, options):
    server = Server("imprint", options, ["--io-threads", str(count)])
    try:
        words = ["--rate", "max", "--clients", clients, "--keys", options.throughput_keys,
                 "--value-size", 64, "--ratio", "1:1", "--seed", turn + 1,
                 "--duration", f"{options.throughput_ms}ms"]
        before, ran_before = processor_us(server), requests(server)
        report = load(server, options, *words)
        after, ran = processor_us(server), requests(server) - ran_before
        return {"command_us": (after[0] - before[0]) / ran, "all_us": (after[1] - before[1]) / ran,
                "rate": report["answered"] / report["elapsed_s"]}
    finally:
        server.stop()


def requests(server):
    return int(server.client.info("total_commands_processed", section="stats")[0])


def processor_us(server):
    """Of the first thread, which runs commands, and of all."""
    def of(task):
        return int((task / "schedstat").read_text().split()[0]) / 1000
    tasks = pathlib.Path(f"/proc/{server.process.pid}/task")
    return of(tasks / str(server.process.pid)), sum(map(of, tasks.iterdir()))


def report(results, _options):
    print("\n## The command thread with I/O threads\n\nSET and GET in turns, one at a time on each "
          "connection, as fast as replies come. Microseconds of processor time a request; the ratio "
          "is that of the medians.\n")
    print("| clients | io-threads | command thread, us | ratio | all threads, us | requests/s |")
    print("|---|---|---|---|---|---|")
    for clients, by_count in results.items():
        medians = {}
        for count, rounds in sorted(by_count.items()):
            own = [one["command_us"] for one in rounds]
            medians[count] = sorted(own)[len(own) // 2]
            ratio = medians[count] / medians["1"]
            print(f"| {clients} | {count} | {spread(own, '{:.2f}')} | {ratio:.2f} "
                  f"| {spread([one['all_us'] for one in rounds], '{:.2f}')} "
                  f"| {spread([one['rate'] for one in rounds])} |")
