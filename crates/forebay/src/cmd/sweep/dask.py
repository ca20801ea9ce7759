"""Runs chunks of a sweep on Dask. Arguments: scheduler or '-', workers, program, folder, chunks."""

import subprocess
import sys


def run(program, folder, chunk):
    """One chunk; a worker that dies has its chunks run again elsewhere, which does no harm."""
    command = [program, "sweep", "run", folder, "--chunk", chunk]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    said = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    return done.returncode, (said or [f"exit code {done.returncode}"])[0].removeprefix("error: ")


def main(scheduler, workers, program, folder, *chunks):
    """Prints a line for each chunk that failed."""
    from distributed import Client, LocalCluster, as_completed

    cluster = None
    if scheduler == "-":
        # No dashboard: nothing but loopback is opened.
        cluster = LocalCluster(
            n_workers=int(workers),
            threads_per_worker=1,
            host="127.0.0.1",
            dashboard_address=None,
            silence_logs=50,
        )
    failed = 0
    try:
        client = Client(cluster or scheduler, timeout="60s")
    except OSError as error:
        print(f"error: {scheduler}: {error}", file=sys.stderr, flush=True)
        return 1
    with client:
        pids = sorted(client.run(lambda: __import__("os").getpid()).values())
        print("note: workers " + " ".join(map(str, pids)), file=sys.stderr, flush=True)
        tasks = {client.submit(run, program, folder, chunk, pure=False): chunk for chunk in chunks}
        for task in as_completed(tasks):
            try:
                code, said = task.result()
            except Exception as error:
                code, said = 2, f"{type(error).__name__}: {error}"
            if code:
                failed += 1
                print(f"error: chunk {tasks[task]}: {said}", file=sys.stderr, flush=True)
    if cluster:
        cluster.close()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
