import type { Workload } from '../harness/workload.js'
import { loop } from './loop/index.js'

export const workloads: readonly Workload[] = [loop]

export function findWorkload(name: string): Workload | undefined {
  return workloads.find((workload) => workload.name === name)
}
