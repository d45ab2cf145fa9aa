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
        "kfm.delivery.public_files:Telling.all",
        "self._take_back()",
        "pass",
        f"{PUBLISHED}::test_a_writer_whose_lock_expired_takes_back_what_was_withdrawn_meanwhile",
    ),
    "a page in a bucket replaces what others wrote meanwhile": Bug(
        "kfm.sinks.bucket_tree:BucketTree._write",
        "self._bucket.replace(path, body, found.etag, attributes)",
        "self._bucket.write(path, body, attributes)",
        "tests/sinks/test_file_trees.py::test_what_others_wrote_since_it_was_looked_at_is_not_replaced",
    ),
    "an altered page in a bucket is believed": Bug(
        "kfm.sinks.bucket_tree:BucketTree._is_unknown",
        "return not recognises(",
        "return False and not recognises(",
        "tests/delivery/test_bucket_pages.py::test_a_page_that_the_archive_wrote_stays_and_is_named",
    ),
    "pages in a bucket are cached by browsers": Bug(
        "kfm.sinks.bucket_tree:BucketTree._write",
        '"Cache-Control": "no-cache", ',
        "",
        "tests/sinks/test_file_trees.py::test_a_browser_asks_again_and_is_told_what_a_file_is",
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
