"""Bugs of objects and public files in a bucket."""

from __future__ import annotations

from tests.seeded.planting import Bug

OBJECTS = "kfm.store.buckets.bucket_objects"
PUBLISHER = "kfm.sinks.bucket_publisher:BucketPublisher"
STORED = "tests/store/test_bucket_objects.py"
FAULTS = "tests/store/test_bucket_faults.py"
PUBLISHED = "tests/sinks/test_publishers.py"

BUCKETS: dict[str, Bug] = {
    "a pointer in a bucket is replaced whatever is there": Bug(
        f"{PUBLISHER}.update_metadata",
        "self._bucket.replace(target, body, kept[1].etag, attributes)",
        "self._bucket.write(target, body, attributes)",
        f"{PUBLISHED}::test_a_slow_pointer_loses_against_a_later_one_without_a_lock",
    ),
    "what was withdrawn during a write stays in the bucket": Bug(
        f"{PUBLISHER}._write_new",
        'if problem.fields.get("withdrawn"):',
        "if False:",
        f"{PUBLISHED}::test_a_writer_whose_lock_expired_takes_back_what_was_withdrawn_meanwhile",
    ),
    "a removal whose answer was lost is not repeated": Bug(
        "kfm.bucket:Bucket.remove",
        "delete, ATTEMPTS)",
        "delete)",
        f"{FAULTS}::test_a_pointer_and_a_file_whose_answer_is_lost_are_written_once",
    ),
    "other bytes under a digest in a bucket stay": Bug(
        f"{OBJECTS}:BucketObjects.keep",
        'if etag == "" and not',
        "if False and not",
        f"{STORED}::test_other_bytes_under_a_name_are_refused_wherever_they_are_read",
    ),
    "what is read from a bucket is not compared with its digest": Bug(
        f"{OBJECTS}:_VerifiedStream._next",
        'if "sha256:" + self._hash.hexdigest() != self._expected:',
        "if False:",
        f"{STORED}::test_other_bytes_under_a_name_are_refused_wherever_they_are_read",
    ),
}
