"""The tuning of the embedded server follows the machine, modestly."""

from __future__ import annotations

from pathlib import Path

import pytest

from retrieval.adapters.store.installation.embedded.binaries import MachineResources, measure_resources, settings_for

MEGABYTE = 1024 * 1024
GIGABYTE = 1024 * MEGABYTE


@pytest.mark.parametrize(
    ("memory_bytes", "shared_buffers", "maintenance", "cache"),
    [
        (256 * MEGABYTE, "128MB", "64MB", "128MB"),
        (2 * GIGABYTE, "256MB", "64MB", "1024MB"),
        (4 * GIGABYTE, "256MB", "128MB", "2048MB"),
        (8 * GIGABYTE, "256MB", "256MB", "4096MB"),
        (256 * GIGABYTE, "256MB", "512MB", "131072MB"),
    ],
)
def test_memory_settings_grow_with_the_memory_within_limits(
    memory_bytes: int, shared_buffers: str, maintenance: str, cache: str
) -> None:
    """Shares of the memory are taken, but never less than is useful or more than is modest."""
    settings = settings_for(MachineResources(memory_bytes, cores=2))

    assert shared_buffers == settings["shared_buffers"]
    assert maintenance == settings["maintenance_work_mem"]
    assert cache == settings["effective_cache_size"]


@pytest.mark.parametrize(
    ("cores", "processes", "workers", "maintenance", "gather"),
    [(1, "8", "1", "1", "0"), (2, "8", "2", "1", "1"), (4, "8", "4", "3", "2"), (16, "16", "16", "15", "2")],
)
def test_parallelism_follows_the_cores(cores: int, processes: str, workers: str, maintenance: str, gather: str) -> None:
    """One core gets no parallel queries; many cores help index builds more than single queries."""
    settings = settings_for(MachineResources(4 * GIGABYTE, cores))

    assert processes == settings["max_worker_processes"]
    assert workers == settings["max_parallel_workers"]
    assert maintenance == settings["max_parallel_maintenance_workers"]
    assert gather == settings["max_parallel_workers_per_gather"]


@pytest.mark.parametrize(
    ("shared_memory_bytes", "expected"),
    [(None, None), (64 * MEGABYTE, "sysv"), (4 * GIGABYTE, None)],
)
def test_a_small_shared_memory_file_system_is_avoided(shared_memory_bytes: int | None, expected: str | None) -> None:
    """If /dev/shm is too small for a parallel index build, another kind of shared memory is used."""
    settings = settings_for(MachineResources(4 * GIGABYTE, 4, shared_memory_bytes))

    assert expected == settings.get("dynamic_shared_memory_type")


def machine(root: Path, membership: str, limits: dict[str, str]) -> Path:
    """Lay out ``proc`` and ``sys`` as a machine with these control groups has them."""
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text(membership)
    for path, text in limits.items():
        file = root / "sys/fs/cgroup" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text + "\n")
    return root


def test_the_memory_limit_of_a_group_above_counts(tmp_path: Path) -> None:
    """In the unified hierarchy a parent's limit holds even where the own group has none."""
    limits = {"app/memory.max": str(300 * MEGABYTE), "app/web/memory.max": "max"}
    root = machine(tmp_path, "0::/app/web\n", limits)

    assert measure_resources(root).memory_bytes == 300 * MEGABYTE


def test_the_memory_limit_of_the_older_hierarchy_counts(tmp_path: Path) -> None:
    """A container sees its group's limit at the mount itself, whatever path the kernel names."""
    membership = "7:memory:/docker/0f3a\n3:cpu,cpuacct:/docker/0f3a\n"
    root = machine(tmp_path / "limited", membership, {"memory/memory.limit_in_bytes": str(200 * MEGABYTE)})
    assert measure_resources(root).memory_bytes == 200 * MEGABYTE
    unlimited = machine(tmp_path / "unlimited", membership, {"memory/memory.limit_in_bytes": "9223372036854771712"})
    assert measure_resources(unlimited).memory_bytes == measure_resources(tmp_path / "bare").memory_bytes


def test_a_limit_that_cannot_be_read_is_passed_over(tmp_path: Path) -> None:
    """Some sandboxes hide a file that they list; here it is a folder."""
    root = machine(tmp_path, "0::/app\n", {"app/memory.max": str(300 * MEGABYTE)})
    (root / "sys/fs/cgroup/memory.max").mkdir()
    assert measure_resources(root).memory_bytes == 300 * MEGABYTE


def test_a_quota_of_processor_time_counts_as_cores(tmp_path: Path) -> None:
    """A quota of half a core counts as one core."""
    root = machine(tmp_path, "3:cpu:/old\n0::/app\n", {"app/cpu.max": "50000 100000", "cpu.max": "max 100000"})
    assert measure_resources(root).cores == 1


def test_a_machine_without_control_groups_is_measured_whole(tmp_path: Path) -> None:
    """Nothing is assumed about files that are not there."""
    measured = measure_resources(tmp_path)

    assert measured.memory_bytes > 64 * MEGABYTE
    assert measured.cores >= 1
    assert measured.shared_memory_bytes is None
