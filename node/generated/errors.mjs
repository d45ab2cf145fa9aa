// Made by `make schemas` from the code of Python; change that, not this file.

import { KfmError } from "../error_base.mjs";

export { KfmError };

export class Refused extends KfmError {
  static code = "refused";
  static exitCode = 3;
}

export class Denied extends KfmError {
  static code = "denied";
  static exitCode = 4;
}

export class Frozen extends KfmError {
  static code = "frozen";
  static exitCode = 5;
}

export class Cancelled extends KfmError {
  static code = "run.cancelled";
  static exitCode = 1;
}

export class Conflict extends KfmError {
  static code = "conflict";
  static exitCode = 6;
}

export class Unavailable extends KfmError {
  static code = "unavailable";
  static exitCode = 69;
}

export class Broken extends KfmError {
  static code = "broken";
  static exitCode = 74;
}

export class BadInput extends Refused {
  static code = "input.bad";
  static exitCode = 3;
}

export class PlanImpure extends Refused {
  static code = "plan.impure";
  static exitCode = 3;
}

export class PlanChanged extends Refused {
  static code = "plan.changed";
  static exitCode = 3;
}

export class PlanDrift extends Refused {
  static code = "plan.drift";
  static exitCode = 3;
}

export class Held extends Refused {
  static code = "source.held";
  static exitCode = 3;
}

export class StepFailed extends Refused {
  static code = "step.failed";
  static exitCode = 1;
}

export class Sovereignty extends Denied {
  static code = "denied.sovereignty";
  static exitCode = 7;
}

export class Busy extends Conflict {
  static code = "lease.busy";
  static exitCode = 6;
}

export class Fenced extends Conflict {
  static code = "lease.fenced";
  static exitCode = 6;
}

export class Moved extends Conflict {
  static code = "ref.moved";
  static exitCode = 6;
}

export class CircuitOpen extends Unavailable {
  static code = "circuit.open";
  static exitCode = 69;
}

export class BudgetSpent extends Unavailable {
  static code = "retry.spent";
  static exitCode = 69;
}

export class ClusterLost extends Unavailable {
  static code = "cluster.lost";
  static exitCode = 69;
}

export class Corrupt extends Broken {
  static code = "corrupt";
  static exitCode = 65;
}

export class StorageFailed extends Broken {
  static code = "storage.failed";
  static exitCode = 74;
}

export class Full extends Busy {
  static code = "pool.full";
  static exitCode = 6;
}

export const EXIT_CODES = {
  "done": 0,
  "failed": 1,
  "usage": 2,
  "refused": 3,
  "denied": 4,
  "sovereignty": 7,
  "frozen": 5,
  "busy": 6,
  "noop": 10,
  "corrupt": 65,
  "unavailable": 69,
  "storage": 74,
  "interrupted": 130,
  "pipe": 141,
  "terminated": 143,
};

export const EXIT_CODE_OF = {
  "error": 1,
  "refused": 3,
  "denied": 4,
  "frozen": 5,
  "run.cancelled": 1,
  "conflict": 6,
  "unavailable": 69,
  "broken": 74,
  "input.bad": 3,
  "plan.impure": 3,
  "plan.changed": 3,
  "plan.drift": 3,
  "source.held": 3,
  "step.failed": 1,
  "denied.sovereignty": 7,
  "lease.busy": 6,
  "lease.fenced": 6,
  "ref.moved": 6,
  "circuit.open": 69,
  "retry.spent": 69,
  "cluster.lost": 69,
  "corrupt": 65,
  "storage.failed": 74,
  "pool.full": 6,
};
