// vitest calls this once per run; what it answers is called at the end.
export { default } from '@holdfast/testing/setup'
