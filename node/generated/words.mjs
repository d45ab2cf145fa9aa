// Made by `make schemas` from the code of Python; change that, not this file.

export const VERSION = "0.1.0";

export const DEFAULTS = {
  "config": null,
  "json": false,
  "quiet": false,
  "no_color": false,
  "verbose": false,
};

export const KEEPS_CASE = "names_keep_case";

export const SUFFIXES = {
  "text/csv": ".csv",
  "application/json": ".json",
  "application/geo+json": ".geojson",
  "application/x-ndjson": ".ndjson",
  "text/plain": ".txt",
  "application/vnd.apache.parquet": ".parquet",
  "image/tiff": ".tif",
  "application/wmo-GRIB2": ".grib2",
  "application/netcdf": ".nc",
  "application/vnd.zarr+zip": ".zarr.zip",
  "application/geopackage+sqlite3": ".gpkg",
  "application/vnd.flatgeobuf": ".fgb",
  "application/vnd.shp+zip": ".shp.zip",
  "application/vnd.pmtiles": ".pmtiles",
  "text/markdown; charset=utf-8; variant=CommonMark": ".md",
};

export const FLAGS = {
  "": [{"name": "--version", "takes": "nothing", "fallback": false}, {"name": "--config", "takes": "one", "fallback": null}, {"name": "--json", "takes": "nothing", "fallback": false}, {"name": "--quiet", "takes": "nothing", "fallback": false}, {"name": "--no-color", "takes": "nothing", "fallback": false}, {"name": "--verbose", "takes": "nothing", "fallback": false}],
  "run": [{"name": "--config", "takes": "one", "fallback": null}, {"name": "--json", "takes": "nothing", "fallback": false}, {"name": "--quiet", "takes": "nothing", "fallback": false}, {"name": "--no-color", "takes": "nothing", "fallback": false}, {"name": "--verbose", "takes": "nothing", "fallback": false}, {"name": "--dry-run", "takes": "nothing", "fallback": false}, {"name": "--window", "takes": "one", "fallback": ""}, {"name": "--force", "takes": "nothing", "fallback": false}, {"name": "--allow-deletions", "takes": "one", "fallback": null}, {"name": "--abandon", "takes": "nothing", "fallback": false}, {"name": "--artifacts", "takes": "one", "fallback": null}, {"name": "--exit-code", "takes": "nothing", "fallback": false}, {"name": "--reason", "takes": "one", "fallback": ""}, {"name": "--actor", "takes": "one", "fallback": null}],
  "webhook": [{"name": "--config", "takes": "one", "fallback": null}, {"name": "--json", "takes": "nothing", "fallback": false}, {"name": "--quiet", "takes": "nothing", "fallback": false}, {"name": "--no-color", "takes": "nothing", "fallback": false}, {"name": "--verbose", "takes": "nothing", "fallback": false}],
  "webhook verify": [{"name": "--config", "takes": "one", "fallback": null}, {"name": "--json", "takes": "nothing", "fallback": false}, {"name": "--quiet", "takes": "nothing", "fallback": false}, {"name": "--no-color", "takes": "nothing", "fallback": false}, {"name": "--verbose", "takes": "nothing", "fallback": false}, {"name": "--body", "takes": "one", "fallback": "-"}, {"name": "--header", "takes": "many", "fallback": []}],
};

export const COMMANDS = {
  "": ["run", "webhook"],
  "webhook": ["verify"],
};

export const HELP = {
  "": "usage: updater COMMAND [ARGUMENTS]\n\nRuns what kfm.yml declares: fetch, check, plan, execute, commit.\n\ncommands:\n  run      Update datasets: fetch, check, plan, execute, commit\n  webhook  Check a request that a webhook sent\n\noptions:\n  -h, --help     show this help message and exit\n  --version      print the version\n\neverywhere:\n  --config FILE  kfm.yml to use (default: the nearest one upward)\n  --json         write JSON to stdout\n  --quiet        nothing on stderr but errors\n  --no-color     no colours (NO_COLOR works too)\n  --verbose      a line on stderr for every event\n\nexit codes:\n    0  done; a NOOP too, unless --exit-code is given\n    1  the run failed, or an internal error\n    2  the command line is wrong\n    3  the input, the data or the plan is refused: fix it\n    4  a gate denies it: ask its owner\n    7  the owners of the data have a say, and have not given it: ask them\n    5  a freeze flag is set: wait for the thaw\n    6  another worker has it, or the world moved: look again\n   10  nothing changed (only with --exit-code)\n   65  stored bytes are not what was stored\n   69  a source or service does not answer: retry later\n   74  the disk failed; nothing more was acknowledged\n  130  interrupted by Ctrl-C; a run under way is left resumable\n  141  the reader of the output stopped reading\n  143  terminated by SIGTERM; a run under way is left resumable\n\nstdout is data, stderr is for people; --json makes the data JSON.\n`updater COMMAND --help` explains a command.\n",
  "run": "usage: updater run [-h] [--config FILE] [--json] [--quiet] [--no-color] [--verbose] [--dry-run]\n                   [--window W] [--force] [--allow-deletions N] [--abandon] [--artifacts DIR]\n                   [--exit-code] [--reason TEXT] [--actor NAME]\n                   [DATASET ...]\n\nUpdate datasets: fetch, check, plan, execute, commit.\nA run over unchanged inputs is a NOOP. Its result is processed, not published: see `kfm publish`.\n\npositional arguments:\n  DATASET              its name in kfm.yml (default: all)\n\noptions:\n  -h, --help           show this help message and exit\n  --dry-run            do the work, change nothing, report what would change\n  --window W           days: 2026-01-01/2026-01-31, or P30D to today\n  --force              run again although nothing changed; needs --reason\n  --allow-deletions N  let at most N keys go, whatever the deletion budget; needs --reason\n  --abandon            end an unfinished run of the same work and start again; needs --reason\n  --artifacts DIR      write the artifacts of the run here\n  --exit-code          exit 10 if nothing changed\n  --reason TEXT        why; goes into the ledger\n  --actor NAME         who; default KFM_ACTOR or the user's name\n\neverywhere:\n  --config FILE        kfm.yml to use (default: the nearest one upward)\n  --json               write JSON to stdout\n  --quiet              nothing on stderr but errors\n  --no-color           no colours (NO_COLOR works too)\n  --verbose            a line on stderr for every event\n",
  "webhook": "usage: updater webhook [-h] [--config FILE] [--json] [--quiet] [--no-color] [--verbose] COMMAND ...\n\nCheck a request that a webhook sent.\n\npositional arguments:\n  COMMAND\n    verify       Check whether a request would be accepted now, and why not\n\noptions:\n  -h, --help     show this help message and exit\n\neverywhere:\n  --config FILE  kfm.yml to use (default: the nearest one upward)\n  --json         write JSON to stdout\n  --quiet        nothing on stderr but errors\n  --no-color     no colours (NO_COLOR works too)\n  --verbose      a line on stderr for every event\n",
  "webhook verify": "usage: updater webhook verify [-h] [--config FILE] [--json] [--quiet] [--no-color] [--verbose]\n                              [--body FILE] [--header H]\n                              SOURCE\n\nCheck whether a request would be accepted now, and why not.\n\npositional arguments:\n  SOURCE         its name under `webhooks:`\n\noptions:\n  -h, --help     show this help message and exit\n  --body FILE    the raw body (default: stdin)\n  --header H     'Name: value'; may be repeated\n\neverywhere:\n  --config FILE  kfm.yml to use (default: the nearest one upward)\n  --json         write JSON to stdout\n  --quiet        nothing on stderr but errors\n  --no-color     no colours (NO_COLOR works too)\n  --verbose      a line on stderr for every event\n",
};

export const DENIED_V4 = [["0.0.0.0", 8, "unspecified"], ["10.0.0.0", 8, "private"], ["100.64.0.0", 10, "shared by a carrier"], ["127.0.0.0", 8, "this machine"], ["168.63.129.16", 32, "a cloud platform's own service"], ["169.254.0.0", 16, "link-local"], ["172.16.0.0", 12, "private"], ["192.0.0.0", 24, "reserved for protocols"], ["192.0.2.0", 24, "documentation"], ["192.88.99.0", 24, "a 6to4 relay"], ["192.168.0.0", 16, "private"], ["198.18.0.0", 15, "for benchmarks"], ["198.51.100.0", 24, "documentation"], ["203.0.113.0", 24, "documentation"], ["224.0.0.0", 4, "multicast"], ["240.0.0.0", 4, "reserved"]];
export const DENIED_V6 = [["::", 128, "unspecified"], ["::1", 128, "this machine"], ["::", 96, "an IPv4-compatible address"], ["64:ff9b::", 96, "NAT64"], ["64:ff9b:1::", 48, "NAT64"], ["100::", 64, "a discard address"], ["2001::", 32, "Teredo"], ["2001::", 23, "reserved for protocols"], ["2001:db8::", 32, "documentation"], ["2002::", 16, "6to4"], ["3fff::", 20, "documentation"], ["fc00::", 7, "private"], ["fe80::", 10, "link-local"], ["fec0::", 10, "site-local"], ["ff00::", 8, "multicast"]];
export const OURS = ["accept-encoding", "connection", "content-length", "expect", "host", "if-match", "if-modified-since", "if-none-match", "if-range", "if-unmodified-since", "range", "te", "trailer", "transfer-encoding", "upgrade"];
export const WEAK = {
  "tmpfs": "it lives in memory: a power cut loses everything",
  "ramfs": "it lives in memory: a power cut loses everything",
  "nfs": "locks and syncs of network file systems cannot be relied on",
  "nfs4": "locks and syncs of network file systems cannot be relied on",
  "cifs": "locks and syncs of network file systems cannot be relied on",
  "smb3": "locks and syncs of network file systems cannot be relied on",
  "9p": "syncs may stop at the host's cache",
  "vboxsf": "syncs may stop at the host's cache",
  "fuse.sshfs": "locks and syncs of network file systems cannot be relied on",
};
export const WEAK_OPTIONS = {
  "nobarrier": "mounted with nobarrier: the disk may reorder what was synced",
  "barrier=0": "mounted with barrier=0: the disk may reorder what was synced",
  "data=writeback": "mounted with data=writeback: a crash may leave stale bytes in files",
};
export const WHY = {
  "ENOSPC": ["the disk is full", "free some space, then `kfm resume`"],
  "EDQUOT": ["the disk quota is used up", "free some space, then `kfm resume`"],
  "EMFILE": ["too many open files", "raise the limit (ulimit -n), then `kfm resume`"],
  "ENFILE": ["the system is out of file handles", "close something, then `kfm resume`"],
  "EROFS": ["the file system is read-only", "remount it writable, then `kfm resume`"],
  "EACCES": ["permission denied", "check the owner and mode of the folder"],
  "EPERM": ["not permitted", "check the owner and mode of the folder"],
  "EIO": ["the disk reported an I/O error", "check the disk before anything else, then `kfm resume`"],
};
export const FIELDS = ["timestamp", "service", "job_type", "job_id", "run_id", "correlation_id", "dataset_ids", "zone_in", "zone_out", "policy_label", "status", "duration_ms", "error"];
export const STATUS_WORDS = {
  "RUNNING": "started",
  "SUCCESS": "succeeded",
  "COMMITTED": "succeeded",
  "PARTIAL": "succeeded",
  "FAILED": "failed",
  "SKIPPED": "skipped",
};
export const COLORS = {
  "SUCCESS": "green",
  "COMMITTED": "green",
  "DONE": "green",
  "done": "green",
  "ok": "green",
  "open": "green",
  "FAILED": "red",
  "failed": "red",
  "corrupt": "red",
  "bad": "red",
  "denied": "red",
  "refused": "red",
  "SKIPPED": "dim",
  "noop": "dim",
  "default": "dim",
  "RUNNING": "yellow",
  "PARTIAL": "yellow",
  "IN_PROGRESS": "yellow",
  "held": "yellow",
  "weak": "yellow",
  "frozen": "blue",
  "PENDING": "dim",
};
