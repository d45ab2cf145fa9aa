/** Tells every test that ended, a line of JSON each: `node --test --test-reporter=./node/tests/reporter.mjs`. */

export default async function* reporter(events) {
  for await (const { type, data } of events) {
    if (type !== "test:pass" && type !== "test:fail") continue;
    const skipped = data.skip !== undefined || data.todo !== undefined;
    const why = type === "test:fail" ? String(data.details?.error?.cause?.stack ?? data.details?.error) : "";
    yield JSON.stringify({ name: data.name, passed: type === "test:pass" && !skipped, skipped, why }) + "\n";
  }
}
