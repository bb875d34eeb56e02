/**
 * Files and folders whose English is checked, as patterns of `git ls-files`. A folder is added when it is clean. Of tests only
 * the titles are checked.
 */
export const covered = [
  'CONTRIBUTING.md',
  'README.md',
  'ARCHITECTURE.md',
  'CHANGELOG.md',
  'docs',
  'examples',
  'bench',
  'scripts',
  'packages/engine/sql/functions',
  'packages/engine/src',
  'packages/testing/src',
  'packages/embedded/src',
  'test/src/**/*.test.ts',
  ':(exclude)*.fixture.ts',
  // A landed migration of the example is not edited.
  ':(exclude)examples/payments/sql/0002_execution.sql',
]
