/**
 * Files and folders whose English is checked, as patterns of `git ls-files`. A folder is added when it is clean. Titles of tests
 * are sentences about rules of the specification and are not checked yet.
 */
export const covered = [
  'CONTRIBUTING.md',
  'README.md',
  'docs/guides',
  'docs/operations',
  'docs/decisions',
  'scripts',
  'packages/engine/src/kernel',
  'packages/engine/src/limiter',
  'packages/engine/src/queue',
  'packages/engine/src/processes/execution',
  'packages/engine/src/processes/executor.ts',
  'packages/engine/src/processes/managers',
  'packages/engine/src/workflows/decide',
  ':(exclude)*.test.ts',
  // Being rewritten.
  ':(exclude)docs/guides/testing-your-processes.md',
  ':(exclude)packages/engine/src/kernel/presence',
]
