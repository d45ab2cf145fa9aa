// Made by `make schemas` from the code of Python; change that, not this file.

export const VERSION = "0.1.0";

export const DEFAULTS = {
  "config": null,
  "json": false,
  "quiet": false,
  "no_color": false,
  "verbose": false,
};

export const FLAGS = {
  "": [{"name": "--version", "takes": "nothing", "fallback": false}, {"name": "--config", "takes": "one", "fallback": null}, {"name": "--json", "takes": "nothing", "fallback": false}, {"name": "--quiet", "takes": "nothing", "fallback": false}, {"name": "--no-color", "takes": "nothing", "fallback": false}, {"name": "--verbose", "takes": "nothing", "fallback": false}],
  "run": [{"name": "--dry-run", "takes": "nothing", "fallback": false}, {"name": "--window", "takes": "one", "fallback": ""}, {"name": "--force", "takes": "nothing", "fallback": false}, {"name": "--allow-deletions", "takes": "one", "fallback": null}, {"name": "--abandon", "takes": "nothing", "fallback": false}, {"name": "--artifacts", "takes": "one", "fallback": null}, {"name": "--exit-code", "takes": "nothing", "fallback": false}, {"name": "--reason", "takes": "one", "fallback": ""}, {"name": "--actor", "takes": "one", "fallback": null}, {"name": "--config", "takes": "one", "fallback": null}, {"name": "--json", "takes": "nothing", "fallback": false}, {"name": "--quiet", "takes": "nothing", "fallback": false}, {"name": "--no-color", "takes": "nothing", "fallback": false}, {"name": "--verbose", "takes": "nothing", "fallback": false}],
  "webhook": [{"name": "--config", "takes": "one", "fallback": null}, {"name": "--json", "takes": "nothing", "fallback": false}, {"name": "--quiet", "takes": "nothing", "fallback": false}, {"name": "--no-color", "takes": "nothing", "fallback": false}, {"name": "--verbose", "takes": "nothing", "fallback": false}],
  "webhook verify": [{"name": "--body", "takes": "one", "fallback": "-"}, {"name": "--header", "takes": "many", "fallback": []}, {"name": "--config", "takes": "one", "fallback": null}, {"name": "--json", "takes": "nothing", "fallback": false}, {"name": "--quiet", "takes": "nothing", "fallback": false}, {"name": "--no-color", "takes": "nothing", "fallback": false}, {"name": "--verbose", "takes": "nothing", "fallback": false}],
};

export const COMMANDS = {
  "": ["run", "webhook"],
  "webhook": ["verify"],
};

export const HELP = {
  "": "usage: updater [--version] COMMAND ...\n\nRuns what kfm.yml declares: fetch, check, plan, execute, commit.\n\ncommands:\n  run               update datasets\n  webhook           look at what a webhook sends\n\noptions:\n  --version         print the version\n\neverywhere:\n  -h, --help        show this help\n  --config FILE     kfm.yml to use (default: the nearest one upward)\n  --json            write JSON to stdout\n  --quiet           nothing on stderr but errors\n  --no-color        no colours (NO_COLOR works too)\n  --verbose         a line on stderr for every event\n\nexit codes:\n    0  done; a NOOP too, unless --exit-code is given\n    1  the run failed, or an internal error\n    2  the command line is wrong\n    3  the input, the data or the plan is refused: fix it\n    4  a gate says no: ask someone\n    5  a switch is set: wait for the thaw\n    6  another worker has it, or the world moved: look again\n   10  nothing changed (only with --exit-code)\n   65  stored bytes are not what was stored\n   69  a source or service does not answer: retry later\n   74  the disk said no; nothing more was acknowledged\n\nstdout is data, stderr is for people; --json makes the data JSON.\n",
  "run": "usage: updater run [DATASET ...] [options]\n\nUpdate datasets: fetch, check, plan, execute, commit.\nA run over unchanged inputs is a NOOP. What it makes is processed, not published: see `kfm promote`.\n\n  DATASET           its name in kfm.yml (default: all)\n\noptions:\n  --dry-run         do the work, change nothing, tell what would change\n  --window W        the days meant: 2026-01-01/2026-01-31, or P30D to today\n  --force           run again although nothing changed; needs --reason\n  --allow-deletions N  let at most N keys go, whatever the deletion budget; needs --reason\n  --abandon         end an unfinished run of the same work and begin anew; needs --reason\n  --artifacts DIR   write the artifacts of the run here\n  --exit-code       exit 10 if nothing changed\n  --reason TEXT     why; goes into the ledger\n  --actor NAME      who; default KFM_ACTOR or the user's name\n\neverywhere:\n  -h, --help        show this help\n  --config FILE     kfm.yml to use (default: the nearest one upward)\n  --json            write JSON to stdout\n  --quiet           nothing on stderr but errors\n  --no-color        no colours (NO_COLOR works too)\n  --verbose         a line on stderr for every event\n",
  "webhook": "usage: updater webhook COMMAND ...\n\nLook at what a webhook sends.\n\ncommands:\n  verify            tell whether the door would take a request now, and why not\n\neverywhere:\n  -h, --help        show this help\n  --config FILE     kfm.yml to use (default: the nearest one upward)\n  --json            write JSON to stdout\n  --quiet           nothing on stderr but errors\n  --no-color        no colours (NO_COLOR works too)\n  --verbose         a line on stderr for every event\n",
  "webhook verify": "usage: updater webhook verify SOURCE [options]\n\nTell whether the door would take a request now, and why not.\n\n  SOURCE            its name under `webhooks:`\n\noptions:\n  --body FILE       the raw body (default: stdin)\n  --header H        'Name: value'; may be repeated\n\neverywhere:\n  -h, --help        show this help\n  --config FILE     kfm.yml to use (default: the nearest one upward)\n  --json            write JSON to stdout\n  --quiet           nothing on stderr but errors\n  --no-color        no colours (NO_COLOR works too)\n  --verbose         a line on stderr for every event\n",
};
