"""Files appear whole or not at all, and what is written into them harms nobody."""

import csv
import errno
import os
import stat
import threading
import time

import pytest

from pgig.cli.terminal import visible
from pgig.errors import PgigError
from pgig.files import read_text, sweep, written
from pgig.records.tables import write_csv
from pgig.report.page import _plain
from pgig.sealing import BLANK, is_sealed, seal


def test_what_fails_leaves_nothing(tmp_path):
    target = tmp_path / "a.txt"
    target.write_text("before")
    with pytest.raises(RuntimeError), written(target) as path:
        path.write_text("half")
        raise RuntimeError
    assert target.read_text() == "before"
    assert [p.name for p in tmp_path.iterdir()] == ["a.txt"]


def test_temporary_names_are_unique_to_process_thread_and_host(tmp_path):
    names = []

    def write():
        with written(tmp_path / "a.txt") as path:
            names.append(path.name)
            path.write_text("x")
            barrier.wait()

    barrier = threading.Barrier(3)
    threads = [threading.Thread(target=write) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(names)) == 3
    assert all(str(os.getpid()) in name and name.endswith(".txt") and name.startswith(".a.") for name in names)
    with written(tmp_path / ("ü" * 120 + ".parquet")) as path:  # as long as a name may be
        path.write_text("x")


def test_a_file_is_on_the_disk_before_it_has_its_name(tmp_path, monkeypatch):
    events = []
    fsync, replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda handle: (events.append("settle"), fsync(handle)))  # type: ignore[func-returns-value]
    monkeypatch.setattr(type(tmp_path), "replace", lambda self, to: (events.append("rename"), replace(self, to))[1])  # type: ignore[func-returns-value]
    with written(tmp_path / "a.txt") as path:
        path.write_text("x")
    assert events == ["settle", "rename", "settle"]


def test_the_umask_is_respected_and_never_changed(tmp_path, monkeypatch):
    before = os.umask(0o027)
    try:
        monkeypatch.setattr(os, "umask", lambda _: pytest.fail("the umask was changed"))
        with written(tmp_path / "a.txt") as path:
            path.write_text("x")
            path.chmod(0o600)  # as some writers do
        assert stat.S_IMODE((tmp_path / "a.txt").stat().st_mode) == 0o640
    finally:
        monkeypatch.undo()
        os.umask(before)


@pytest.mark.parametrize(
    "error", [OSError(errno.ENOSPC, "No space left on device"), RuntimeError("os error: No space left")]
)
def test_a_full_disk_is_named_with_its_path_and_what_to_do(tmp_path, error):
    with (
        pytest.raises(PgigError, match=r"the disk is full: .*a\.txt could not be written.*make room"),
        written(tmp_path / "a.txt"),
    ):
        raise error
    assert list(tmp_path.iterdir()) == []


def test_what_killed_processes_left_is_swept_after_an_hour(tmp_path):
    with pytest.raises(KeyboardInterrupt), written(tmp_path / "a.parquet") as path:
        name = path.name
        raise KeyboardInterrupt
    for left in (name, ".part-000000.4711.parquet", ".lock", "part-000000.parquet"):
        (tmp_path / left).write_text("")
    sweep(tmp_path)
    assert len(list(tmp_path.iterdir())) == 4
    for path in tmp_path.iterdir():
        os.utime(path, (time.time() - 7200,) * 2)
    sweep(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {".lock", "part-000000.parquet"}


def test_text_files_are_read_up_to_a_bound(tmp_path):
    (tmp_path / "a.txt").write_text("x" * 100)
    assert read_text(tmp_path / "a.txt") == "x" * 100
    with pytest.raises(PgigError, match="no file of text"):
        read_text(tmp_path / "a.txt", most=99)


def test_a_seal_covers_every_bit(tmp_path):
    path = tmp_path / "a.bin"
    path.write_bytes(os.urandom(50) + f'"seal": "{BLANK}"'.encode() + os.urandom(50))
    seal(path)
    assert is_sealed(path)
    whole = path.read_bytes()
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1 << place % 8]) + whole[place + 1 :])
        if b"pgig-seal:" in path.read_bytes():
            with pytest.raises(PgigError, match="is damaged"):
                is_sealed(path)
        else:  # the mark itself is gone, which the reader of the file notices
            assert not is_sealed(path)
    path.write_bytes(b"nothing")
    assert not is_sealed(path)


def test_cells_that_a_spreadsheet_would_run_are_quoted(tmp_path):
    rows = [["=1+1", "+x", "-x", "@sum", "\tx"], ["plain", "-1.5", "+2e3", "a=b", ""], [-1.5, 3, None, True, 2.0]]
    write_csv(tmp_path / "a.csv", ["a", "b", "c", "d", "=e"], rows)
    with (tmp_path / "a.csv").open(newline="") as file:
        found = list(csv.reader(file))
    assert found[1] == ["'=1+1", "'+x", "'-x", "'@sum", "'\tx"]
    assert found[2] == ["plain", "-1.5", "+2e3", "a=b", ""]
    assert found[3] == ["-1.5", "3", "", "True", "2.0"]
    assert found[0] == ["a", "b", "c", "d", "'=e"]


def test_control_characters_never_reach_the_terminal():
    assert visible("a\x1b[31mb\x07\u202ec\u2028d\x9b") == "a\\x1b[31mb\\x07\\u202ec\\u2028d\\x9b"
    assert visible("ä 漢字\n\t") == "ä 漢字\\n\\t"  # a name of two lines is one line
    assert visible("one\ntwo\x1b", lines=True) == "one\ntwo\\x1b"


def test_markdown_shows_names_as_they_are():
    assert _plain("run|1 *x* [a](b) <b> `c`\nd") == r"run\|1 \*x\* \[a\](b) \<b\> \`c\` d"
    assert _plain("integrated_gradients pgig+start=one _x_") == r"integrated_gradients pgig+start=one \_x\_"
