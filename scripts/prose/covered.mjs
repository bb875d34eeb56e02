/**
 * Files and folders whose English is checked, as patterns of `git ls-files`. A folder is added when it is clean. Titles of tests
 * are sentences about rules of the specification and are not checked yet.
 */
export const covered = [
  'CONTRIBUTING.md',
  'README.md',
  'docs/guides/batches.md',
  'docs/guides/choosing-a-model.md',
  'docs/guides/first-process.md',
  'docs/guides/queues.md',
  'docs/guides/rate-limits.md',
  'docs/guides/unknown-outcomes.md',
  'scripts',
  'packages/engine/src/kernel',
  'packages/engine/src/limiter',
  'packages/engine/src/queue',
  'packages/engine/src/processes/execution',
  'packages/engine/src/processes/executor.ts',
  ':(exclude)*.test.ts',
  // Being rewritten.
  ':(exclude)packages/engine/src/kernel/presence',
]
