"""Archives and gzip files that no honest tool would write."""

import gzip
import stat
import zipfile

import pytest

from ladder_eval.errors import FetchError
from ladder_eval.unpacking import most_unpacked, unpack, unzipped

MIB = 2**20


@pytest.fixture
def archive(tmp_path):
    """Writes an archive of members: a name or ZipInfo, its content, and how it is packed."""

    def write(*members):
        with zipfile.ZipFile(tmp_path / "a.whl", "w", zipfile.ZIP_DEFLATED) as opened:
            for name, content, *method in members:
                opened.writestr(name, content, *method)
        return tmp_path / "a.whl"

    return write


def refusal(archive, tmp_path, patterns=("*",)):
    with pytest.raises(FetchError) as caught:
        unpack(archive, tmp_path / "in" / "folder", patterns, "data 1.0")
    assert not list((tmp_path).glob("in/**/*")), "something was written"
    return str(caught.value)


def test_wanted_members_are_unpacked(archive, tmp_path):
    file = archive(("a/x.txt", b"1"), ("a/b/y.txt", b"2" * MIB), ("c.py", b"3"))
    assert unpack(file, tmp_path / "in", ["a/*"], "data 1.0") == ["a/x.txt", "a/b/y.txt"]
    found = [path for path in (tmp_path / "in").rglob("*") if path.is_file()]
    assert {path.name: path.stat().st_size for path in found} == {"x.txt": 1, "y.txt": MIB}


@pytest.mark.parametrize(
    "name", ["../x", "a/../../x", "/x", "c:x", "a\\x", "a/" + "x" * 256, "a/" + "é" * 128]
)
def test_names_that_lead_elsewhere(archive, tmp_path, name):
    assert "holds the unsafe member" in refusal(archive(("a.txt", b"1"), (name, b"x")), tmp_path)


@pytest.mark.parametrize("kind", [stat.S_IFLNK, stat.S_IFIFO, stat.S_IFCHR, stat.S_IFBLK])
def test_members_that_are_no_files(archive, tmp_path, kind):
    member = zipfile.ZipInfo("a/link")
    member.external_attr = (kind | 0o666) << 16
    assert "holds the unsafe member 'a/link'" in refusal(archive((member, b"/etc")), tmp_path)


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_packings_without_a_bound_on_memory(archive, tmp_path, method):
    assert "unsafe member 'a'" in refusal(archive(("a", b"x" * MIB, method)), tmp_path)


@pytest.mark.parametrize("other", ["a", "./a", "a/b", "a//b/c"])
def test_two_members_in_one_place(archive, tmp_path, other):
    with (
        pytest.warns(UserWarning, match="Duplicate")
        if other == "a"
        else pytest.MonkeyPatch.context()
    ):
        file = archive(("a", b"1"), (other, b"2"))
    assert "holds several members in one place" in refusal(file, tmp_path)


@pytest.mark.parametrize(
    ("place", "changed"),
    [
        (8, b"\1\0"),  # encrypted
        (42, b"\xff\xff\xff\x7f"),  # its header lies beyond the end
        (46, b"\0"),  # a name that is over before it begins
    ],
)
def test_directories_that_lie(archive, tmp_path, place, changed):
    file = archive(("a", b"1" * 100))
    content = file.read_bytes()
    start = content.index(b"PK\1\2") + place
    file.write_bytes(content[:start] + changed + content[start + len(changed) :])
    with pytest.raises(FetchError, match=r"data 1\.0 "):
        unpack(file, tmp_path / "in", ["*"], "data 1.0")


def test_gzip_files_grow_a_hundredfold_and_no_more(tmp_path):
    (tmp_path / "fine.gz").write_bytes(gzip.compress(b"text\n" * 1000))
    assert unzipped(tmp_path / "fine.gz") == b"text\n" * 1000
    assert most_unpacked(MIB) == 164 * MIB
    (tmp_path / "bomb.gz").write_bytes(gzip.compress(bytes(8 * MIB)) * 9)
    with pytest.raises(ValueError, match=r"it unpacks to more than 74 MB"):
        unzipped(tmp_path / "bomb.gz")


def test_small_json_values_count_as_what_they_take_in_memory(tmp_path):
    (tmp_path / "fine.gz").write_bytes(gzip.compress(b'{"a": [' + b"{}," * 10**5 + b"1]}"))
    assert len(unzipped(tmp_path / "fine.gz")) > 3 * 10**5
    (tmp_path / "bomb.gz").write_bytes(gzip.compress(b'{"a": [' + b"{}," * 10**6 + b"1]}"))
    with pytest.raises(ValueError, match=r"it unpacks to more than 67 MB"):
        unzipped(tmp_path / "bomb.gz")
