export { type CrashReport, crashTest } from './crash/crash-test.js'
export { crashWorker } from './crash/crash-worker.js'
export type { KillAt } from './crash/kill-points.js'
export type { CrashEnd, CrashTestOptions } from './crash/options.js'
export {
  createEffects,
  type EffectCall,
  type Effects,
  type EffectsOptions,
  type PerformOptions,
  type Receipt,
} from './effects/effects.js'
export { type EffectEvent, type EffectStore, effectsInDatabase, effectsInMemory, effectTable } from './effects/event.js'
export { type ExpectEffectsOptions, expectEveryEffectKeptOrUndone, type Standing } from './effects/expect-effects.js'
export { type ChooseFault, type EffectFault, type FaultedCall, type FaultShares, faultsFrom } from './effects/faults.js'
export { type EffectEnd, type EffectFinding, effectFindings } from './effects/law.js'
export { type FaultTestEnd, type FaultTestOptions, type FaultTestReport, faultTest } from './fault-test/fault-test.js'
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
