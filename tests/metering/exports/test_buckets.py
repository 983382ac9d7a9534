"""A file in a bucket: whole in one piece or in parts of one size, or not there at all."""

import pytest

from control.metering.exports import buckets, destinations

PART = 1000


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch):
    monkeypatch.setattr(buckets, "PART_BYTES", PART)


def chunks(size: int, step: int = 300) -> list[bytes]:
    whole = bytes(number % 251 for number in range(size))
    return [whole[first : first + step] for first in range(0, size, step)]


@pytest.mark.parametrize("size", [0, 1, PART - 1, PART])
def test_what_is_one_part_goes_in_one_piece(bucket, size):
    destinations.put("s3://money/weir", "a.csv", chunks(size))
    assert bucket.files == {"/money/weir/a.csv": b"".join(chunks(size))}
    assert bucket.asked == ["PUT"]


@pytest.mark.parametrize(
    ("size", "step", "sizes"),
    [
        (PART + 1, 300, [PART, 1]),
        (3 * PART, 300, [PART] * 3),
        (3 * PART + 7, 2500, [PART] * 3 + [7]),  # a chunk of more than two parts
    ],
)
def test_more_goes_in_parts_of_one_size(bucket, size, step, sizes):
    wrote = destinations.put("s3://money/weir", "ä b.csv", chunks(size, step))
    assert wrote == "s3://money/weir/ä b.csv"
    assert list(bucket.files.values()) == [b"".join(chunks(size))]
    assert (bucket.sizes, bucket.uploads) == (sizes, {})
    parts = ["PUT partNumber,uploadId"] * len(sizes)
    assert bucket.asked == ["POST uploads", *parts, "POST uploadId"]


def test_a_part_that_fails_is_sent_again(bucket):
    bucket.statuses += [200, 503, 500, 200]
    destinations.put("s3://money", "a.csv", chunks(2 * PART))
    assert bucket.files["/money/a.csv"] == b"".join(chunks(2 * PART))


@pytest.mark.parametrize(
    "statuses",
    [
        [200, 200, 403],  # a part
        [200, 200, 500, 500, 500],  # and again, and again
        [200, 200, 200, 400],  # what makes them one
    ],
)
def test_what_is_refused_is_aborted(bucket, statuses):
    bucket.statuses += statuses
    with pytest.raises(
        buckets.NotTaken, match=r"refused money/a.csv: \d00|refused money/a.csv: 40"
    ):
        destinations.put("s3://money", "a.csv", chunks(2 * PART))
    assert (bucket.files, bucket.uploads) == ({}, {})
    assert bucket.asked[-1] == "DELETE uploadId"


def test_a_bucket_that_finds_too_late_that_it_cannot_is_believed(bucket):
    bucket.spoils = True
    with pytest.raises(buckets.NotTaken, match="InternalError"):
        destinations.put("s3://money", "a.csv", chunks(2 * PART))
    assert bucket.files == {}


def test_a_file_that_breaks_off_is_aborted(bucket):
    def breaks():
        yield from chunks(2 * PART)
        raise OSError("the database is gone")

    with pytest.raises(OSError, match="gone"):
        destinations.put("s3://money", "a.csv", breaks())
    assert (bucket.files, bucket.uploads) == ({}, {})


def test_parts_that_cannot_be_aborted_are_told(bucket, caplog):
    bucket.statuses += [200, 200, 403, 403]
    with pytest.raises(buckets.NotTaken, match="403"):
        destinations.put("s3://money", "a.csv", chunks(2 * PART))
    assert "parts of money/a.csv stay in their bucket" in caplog.text


def test_more_parts_than_a_bucket_takes_are_refused(bucket, monkeypatch):
    monkeypatch.setattr(buckets, "PARTS_MAX", 2)
    with pytest.raises(buckets.NotTaken, match="more than 2 parts"):
        destinations.put("s3://money", "a.csv", chunks(3 * PART))
    assert (bucket.files, bucket.uploads) == ({}, {})


def test_nobody_at_the_address_is_a_failure(bucket, monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:1")
    with pytest.raises(Exception, match="refused|connect"):
        destinations.put("s3://money", "a.csv", chunks(1))
