export { type CrashReport, crashTest } from './crash/crash-test.js'
export { crashWorker } from './crash/crash-worker.js'
export type { KillAt } from './crash/kill-points.js'
export type { CrashEnd, CrashTestOptions } from './crash/options.js'
export { type FaultProxy, startFaultProxy } from './harness/fault-proxy.js'
export { gate } from './harness/gate.js'
export { waitFor } from './harness/wait-for.js'
export { startWorkerProcess, type WorkerProcess } from './harness/worker-process.js'
export type { Drained, DrainOptions } from './kit/drain.js'
export { type ExpectedLine, expectHistory } from './kit/expect-history.js'
export { type Fake, type FakeAnswer, type FakeCall, fake } from './kit/fake.js'
export type { HasHistory } from './kit/history.js'
export type { Sql } from './kit/sql.js'
export { type Registrable, type TestKit, type TestKitOptions, testKit } from './kit/test-kit.js'
export { dropTestDatabase, startTestServer, type TestDatabase, testDatabase } from './server/test-server.js'
export {
  type Behaviour,
  type BehaviourOptions,
  behaviour,
  behaviours,
  checkBehaviour,
  type Outcome,
  type Roll,
} from './simulation/behaviour.js'
export { createRandom, type Seed } from './simulation/random.js'
export {
  createSimulator,
  type SimulatedAnswer,
  type Simulator,
  type SimulatorOptions,
} from './simulation/simulator.js'
