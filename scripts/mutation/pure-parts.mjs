// What is mutated by rule: code that decides without I/O, and the tests beside it that must notice.
const engine = 'packages/engine/src'

export const pureParts = [
  { files: `${engine}/kernel/retry`, tests: [`${engine}/kernel/retry`] },
  { files: `${engine}/kernel/duration`, tests: [`${engine}/kernel/duration`] },
  { files: `${engine}/kernel/failure`, tests: [`${engine}/kernel/failure`] },
  { files: `${engine}/kernel/calls`, tests: [`${engine}/kernel/calls`] },
  { files: `${engine}/commands/states.ts`, tests: [`${engine}/commands/states.test.ts`] },
  { files: `${engine}/processes/execution/decisions.ts`, tests: [`${engine}/processes/execution/decisions.test.ts`] },
  { files: `${engine}/processes/execution/apply.ts`, tests: [`${engine}/processes/execution/apply.test.ts`] },
  { files: `${engine}/processes/execution/next.ts`, tests: [`${engine}/processes/execution/next.test.ts`] },
  { files: `${engine}/workflows/condition`, tests: [`${engine}/workflows/condition`] },
  { files: `${engine}/workflows/decide`, tests: [`${engine}/workflows/decide`] },
]
