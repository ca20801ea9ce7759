"""Runs chunks of a sweep on a server and workers of HyperQueue.

Arguments: '-', workers, program, folder, chunks.
"""

import logging
import os
import sys
import tempfile


def said(file, error):
    """The program's error, or the server's word for it if the program said nothing."""
    lines = []
    if os.path.exists(file):
        with open(file, errors="replace") as lines_of:
            lines = lines_of.read().splitlines()
    lines = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
    return (lines or [error])[0]


def main(_, workers, program, folder, *chunks):
    """Prints a line for each chunk that failed."""
    # Its progress would stand among the errors.
    os.environ["TQDM_DISABLE"] = "1"
    from hyperqueue import Job, LocalCluster
    from hyperqueue.cluster import WorkerConfig

    logging.disable(logging.INFO)
    with (
        tempfile.TemporaryDirectory(prefix="forebay-hq-") as home,
        LocalCluster(f"{home}/hq") as cluster,
    ):
        for _ in range(int(workers)):
            cluster.start_worker(WorkerConfig(cores=1))
        # Chunks that fail do not stop the others.
        job = Job(name="forebay", max_fails=None)
        tasks = {}
        for chunk in chunks:
            errors = f"{home}/{chunk}.err"
            command = [program, "sweep", "run", folder, "--chunk", chunk]
            task = job.program(command, cwd=home, stdout=None, stderr=errors)
            tasks[task.task_id] = chunk, errors
        client = cluster.client()
        submitted = client.submit(job)
        if client.wait_for_jobs([submitted], raise_on_error=False):
            return 0
        for task, context in sorted(client.get_failed_tasks(submitted).items()):
            chunk, errors = tasks[task]
            print(f"error: chunk {chunk}: {said(errors, context.error)}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
