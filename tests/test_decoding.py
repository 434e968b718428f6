"""Images are decoded within bounds, and whatever a decoder raises is a damaged image."""

import io
import subprocess
import sys
import tarfile
import zipfile

import numpy
import pytest
import torch
from PIL import Image, ImageOps

from pgig.errors import PgigError
from pgig.vision import Preprocess, archives, decoding
from pgig.vision.image_folder import ImageFolder

PIXELS = numpy.random.default_rng(0).integers(0, 255, (24, 32, 3), numpy.uint8)


def saved(image: Image.Image, kind: str, **options) -> io.BytesIO:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer


def rgb(buffer: io.BytesIO) -> numpy.ndarray:
    return numpy.asarray(decoding.read_image(buffer, "x"))


@pytest.mark.parametrize("orientation", range(10))
@pytest.mark.parametrize("kind", ["jpeg", "png", "webp"])
def test_images_are_turned_as_their_tag_says(orientation, kind):
    exif = Image.Exif()
    exif[0x0112] = orientation
    buffer = saved(Image.fromarray(PIXELS), kind, exif=exif)
    wanted = ImageOps.exif_transpose(Image.open(buffer)).convert("RGB")
    assert numpy.array_equal(rgb(buffer), numpy.asarray(wanted))


@pytest.mark.parametrize("tag", [(0x9003, "I", 2**31), (0x011A, "rational", -1), (0x8825, "I", 7)])
def test_other_tags_may_be_anything(tag, monkeypatch):
    """exif_transpose writes all tags anew, which odd ones do not survive."""
    exif = Image.Exif()
    exif[0x0112] = 6

    def broken(self, *_):
        raise TypeError("an odd tag")

    buffer = saved(Image.fromarray(PIXELS), "jpeg", exif=exif)
    monkeypatch.setattr(Image.Exif, "tobytes", broken)
    assert rgb(buffer).shape == (32, 24, 3)


@pytest.mark.parametrize(
    "values",
    [
        numpy.random.default_rng(1).integers(0, 65535, (70, 33), numpy.uint16),
        numpy.random.default_rng(2).random((70, 33), numpy.float32),
        numpy.random.default_rng(3).integers(0, 255, (70, 33), numpy.int32),
        numpy.random.default_rng(4).random((70, 33), numpy.float32) * 60000,
    ],
    ids=["16 bits", "fractions", "whole numbers", "large"],
)
def test_deep_images_come_out_as_their_definition_says_strip_by_strip(values, monkeypatch):
    top = 1 if values.dtype.kind == "f" and values.max() <= 1 else 255 if values.max() <= 255 else 65535
    wanted = (values.astype(numpy.float64) / top * 255).round().astype(numpy.uint8)
    for strip in (1, 100, 2**20):
        monkeypatch.setattr(decoding, "_STRIP", strip)
        found = rgb(saved(Image.fromarray(values), "tiff"))
        assert numpy.array_equal(found, numpy.repeat(wanted[..., None], 3, 2))


@pytest.mark.parametrize("odd", [numpy.nan, numpy.inf, -1, 70000])
def test_values_out_of_range_are_refused(odd):
    values = numpy.full((4, 4), 0.5, numpy.float32)
    values[1, 1] = odd
    with pytest.raises(PgigError, match="values are not in"):
        rgb(saved(Image.fromarray(values), "tiff"))


def test_formats_that_pillow_hands_to_others_are_not_read(monkeypatch):
    eps = saved(Image.fromarray(PIXELS), "eps")
    started = []
    monkeypatch.setattr(subprocess, "check_call", lambda *a, **k: started.append(a))
    monkeypatch.setattr(subprocess, "Popen", lambda *a, **k: started.append(a))
    with pytest.raises(PgigError, match="not an image that is read here"):
        rgb(eps)
    assert started == []
    Image.init()
    assert not {"EPS", "IPTC", "WMF", "HDF5", "GRIB", "BUFR", "MPEG"} & decoding.FORMATS
    assert {"PNG", "JPEG", "WEBP", "TIFF", "GIF"} <= decoding.FORMATS


@pytest.mark.parametrize("kind", ["AVIF", "DDS", "WEBP", "PNG", "JPEG", "TIFF"])
def test_damaged_files_are_one_line(kind):
    Image.init()
    head = b"\x00\x00\x00\x1cftypavif\x00\x00\x00\x00avifmif1miaf"  # for a Pillow that writes no AVIF
    whole = saved(Image.fromarray(PIXELS), kind).getvalue() if kind in Image.SAVE else head + bytes(range(256))
    refused = []
    for place in range(4, len(whole), max(1, len(whole) // 60)):
        for damaged in (whole[:place], whole[:place] + b"\xff\x00\xff" + whole[place + 3 :]):
            try:
                rgb(io.BytesIO(damaged))
            except PgigError as error:  # and nothing else
                refused.append(str(error))
    assert len(refused) > 5
    assert all(line.startswith("cannot read the image x: ") for line in refused)


def test_too_many_pixels_are_refused_before_they_are_decoded(monkeypatch):
    buffer = saved(Image.new("L", (400, 300)), "png")
    monkeypatch.setattr(Image.Image, "load", lambda self: pytest.fail("it was decoded"))
    with pytest.raises(PgigError, match=r"400 x 300 are 120,000 pixels, more than the 119,999 allowed \(max_pixels\)"):
        Preprocess(max_pixels=119_999).pixels(buffer, "x")
    assert Preprocess().max_pixels == 150_000_000
    with pytest.raises(PgigError, match="max_pixels must be at least 1"):
        Preprocess(max_pixels=0)


def test_more_pixels_than_pillow_likes_are_read_where_they_are_allowed(monkeypatch):
    buffer = saved(Image.fromarray(PIXELS), "png")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100)  # an error of its own from 200 on
    with pytest.raises(PgigError, match="its pixels are more than the 150 allowed"):
        Preprocess(8, 8, max_pixels=150).pixels(buffer, "x")
    assert Preprocess(8, 8, max_pixels=1000).pixels(buffer, "x").shape == (3, 8, 8)
    assert Image.MAX_IMAGE_PIXELS == 100


def test_the_bound_on_pixels_does_not_change_what_is_known_of_preprocessing():
    assert Preprocess().facts == Preprocess(max_pixels=7).facts
    assert set(Preprocess().facts) == {"size", "resize", "mean", "std", "channels"}


LARGE = """
import resource, sys
from pgig.vision import Preprocess
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
Preprocess().pixels(sys.argv[1])
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024)
"""


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["I;16", "RGB"])
def test_an_image_takes_at_most_sixteen_bytes_a_pixel(tmp_path, mode):
    side = 5000
    exif = Image.Exif()
    exif[0x0112] = 6  # turned, which takes a copy
    Image.new(mode, (side, side)).save(tmp_path / "large.png", exif=exif)
    used = int(subprocess.check_output([sys.executable, "-c", LARGE, str(tmp_path / "large.png")], text=True))
    assert used < 16 * side * side


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # folders stay open while in use
def test_files_are_read_up_to_a_bound(tmp_path, monkeypatch):
    """Of a folder, a zip and a tar file; a stated size need not be true."""
    monkeypatch.setattr(archives, "LARGEST_FILE", 5000)
    monkeypatch.setattr(decoding, "LARGEST_FILE", 5000)
    small = saved(Image.fromarray(PIXELS), "png").getvalue()
    assert len(small) < 5000
    (tmp_path / "folder").mkdir()
    for name, content in (("a.png", small), ("b.png", bytes(6000))):
        (tmp_path / "folder" / name).write_bytes(content)
    with zipfile.ZipFile(tmp_path / "images.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("a.png", "b.png"):
            archive.write(tmp_path / "folder" / name, name)
    with tarfile.open(tmp_path / "images.tar", "w") as archive:
        archive.add(tmp_path / "folder", ".")
    for where in ("folder", "images.zip", "images.tar"):
        skipped: dict[str, str] = {}
        (batch,) = (x for _, x in ImageFolder.open(tmp_path / where).batches(Preprocess(24, 24), 8, 0, skipped))
        assert len(batch) == 1
        ((name, reason),) = skipped.items()
        assert name.endswith("b.png")
        assert "no image is read from more than" in reason
    with pytest.raises(PgigError, match="no image is read from more than"):
        Preprocess().pixels(tmp_path / "folder" / "b.png")
    with tarfile.open(tmp_path / "images.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "folder", ".")
    with pytest.raises(PgigError, match="unpack the archive"):
        ImageFolder.open(tmp_path / "images.tar.gz")


def test_a_huge_sparse_file_is_one_line(tmp_path):
    for name in ("x.png", "x.safetensors", "x.pth", "x.npz", "x.toml", "x.tar"):
        with (tmp_path / name).open("wb") as file:
            file.truncate(40 * 2**30)
    from pgig.records.config import read_toml
    from pgig.vision.weights import read_weights

    with pytest.raises(PgigError, match=r"a file of 40\.0 GB"):
        Preprocess().pixels(tmp_path / "x.png")
    for name in ("x.safetensors", "x.pth", "x.npz"):
        with pytest.raises(PgigError):
            read_weights(str(tmp_path / name))
    with pytest.raises(PgigError, match="no file of text"):
        read_toml(tmp_path / "x.toml")
    with pytest.raises(PgigError):
        ImageFolder.open(tmp_path / "x.tar")


def test_pixels_are_what_they_were(shared):
    """Bit for bit what Pillow alone gives, on real photographs."""
    for path in sorted((shared / "imagenet-sample" / "images").iterdir())[:5]:
        wanted = ImageOps.exif_transpose(Image.open(path)).convert("RGB")
        assert torch.equal(torch.from_numpy(numpy.array(wanted)), torch.from_numpy(rgb(path).copy()))
