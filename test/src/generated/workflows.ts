import type { Effects, FaultTestOptions, Standing } from '@holdfast/testing'
import { createEffects, createRandom, expectEveryEffectKeptOrUndone } from '@holdfast/testing'
import { defineWorkflow, type Holdfast, type WorkflowDefinition } from 'holdfast'
import { FAULTS } from './faults.js'

const by = { actor: 'ann', reason: 'generated' }

/** A builder without the names of its steps: they are known at run time only. */
interface AnyBuilder {
  step(name: string, handler: string, options?: object): AnyBuilder
  onFailure(name: string, handler: string, options?: object): AnyBuilder
  fork(name: string, ...branches: ((branch: AnyBuilder) => AnyBuilder)[]): AnyBuilder
  join(name: string, strategy: 'all' | 'any'): AnyBuilder
  savePoint(name: string): AnyBuilder
  condition(name: string, expression: string, elseBranch?: (branch: AnyBuilder) => AnyBuilder): AnyBuilder
  build(): WorkflowDefinition
}

interface World {
  readonly bank: Effects
  readonly seeds: Map<string, number>
}

/** Workflows with generated graphs, on a simulated bank. */
export function generatedWorkflows(): Omit<FaultTestOptions<World>, 'seeds'> {
  return {
    world: (seed) => ({ bank: createEffects({ seed, faults: FAULTS }), seeds: new Map() }),
    setup(hf, { bank }) {
      hf.handle('Perform', (_, { instanceId, stepName, idempotencyKey, signal, metadata }) =>
        bank.perform({
          execution: instanceId,
          name: stepName,
          idempotencyKey,
          signal,
          once: metadata['once'] === true,
        }),
      )
      hf.handle(
        'PerformKnown',
        (_, { instanceId, stepName, idempotencyKey, signal }) =>
          bank.perform({ execution: instanceId, name: stepName, idempotencyKey, signal, once: true }),
        { inquire: (_, { instanceId, stepName }) => bank.inquire({ execution: instanceId, name: stepName }) },
      )
      hf.handle('Undo', (_, { instanceId, stepName, idempotencyKey, signal }) =>
        bank.undo({ execution: instanceId, name: stepName, idempotencyKey, signal }),
      )
    },
    async start(hf, { seeds }, seed) {
      const { workflow } = generatedWorkflow(seed)
      hf.register(workflow)
      const { id } = await hf.start(workflow, {})
      seeds.set(id, seed)
      return id
    },
    cancel: (hf, id) => hf.workflow(id).cancel(by),
    attend,
    async invariant({ world, hf, sql }) {
      const reached = new Map<string, Set<string>>()
      for (const id of world.seeds.keys()) {
        const done = (await hf.workflow(id).steps()).filter(({ status }) => status === 'COMPLETED')
        reached.set(id, new Set(done.map(({ name }) => name)))
      }
      await expectEveryEffectKeptOrUndone(world.bank, sql, {
        endOf: (id, name, standing) => endOf(world, reached, { id, name, standing }),
      })
    },
  }
}

/** What lies before a save point that was reached stands; who loses against another branch may stand or be undone. */
function endOf(
  { seeds }: World,
  reached: ReadonlyMap<string, ReadonlySet<string>>,
  { id, name, standing }: { readonly id: string; readonly name: string; readonly standing: Standing | undefined },
) {
  const { raced, saved } = generatedWorkflow(seeds.get(id) ?? 0)
  if (standing?.status === 'COMPLETED') return raced.has(name) ? 'either' : undefined
  const points = saved.get(name) ?? []
  return points.some((point) => reached.get(id)?.has(point)) ? 'either' : undefined
}

/** A person requeues what failed for good a few times, and then cancels. */
async function attend(hf: Holdfast, _: World, open: readonly string[], round: number): Promise<void> {
  await hf.trouble.retry({ model: 'workflows' }, by)
  if (round > 3) for (const id of open) await hf.workflow(id).cancel(by)
}

interface Generated {
  readonly workflow: WorkflowDefinition
  /** Steps that run against others. */
  readonly raced: ReadonlySet<string>
  /** By step: the save points behind it. */
  readonly saved: ReadonlyMap<string, readonly string[]>
}

/** The same graph for the same seed. */
function generatedWorkflow(seed: number): Generated {
  const random = createRandom(`workflow ${seed}`)
  const raced = new Set<string>()
  const saved = new Map<string, string[]>()
  let names = 0
  const name = (kind: string) => {
    names += 1
    return `${kind}-${names}`
  }

  function step(builder: AnyBuilder, racing: boolean, last: boolean): AnyBuilder {
    const here = name('step')
    const once = random() < 0.25
    saved.set(here, [])
    if (racing) raced.add(here)
    const options = {
      timeout: '40ms',
      ...(once ? { nonIdempotent: true } : { retry: { maxAttempts: 1 + Math.floor(random() * 3), delays: ['20ms'] } }),
      // The last one fails more often, so that much is undone.
      metadata: { once, last },
    }
    const handler = once && random() < 0.5 ? 'PerformKnown' : 'Perform'
    return builder
      .step(here, handler, options)
      .onFailure(`undo ${here}`, 'Undo', { retry: { maxAttempts: 5, delays: ['20ms'] } })
  }

  function part(builder: AnyBuilder, depth: number, racing: boolean): AnyBuilder {
    const dice = random()
    if (depth > 0 && dice < 0.35) {
      const strategy = random() < 0.35 ? 'any' : 'all'
      const branches = Array.from(
        { length: 2 + Math.floor(random() * 2) },
        () => (branch: AnyBuilder) =>
          path(branch, 1 + Math.floor(random() * 2), depth - 1, racing || strategy === 'any'),
      )
      return builder.fork(name('fork'), ...branches).join(name('join'), strategy)
    }
    if (dice < 0.45) {
      const expression = random() < 0.7 ? '{{ eq 1 1 }}' : '{{ eq 1 2 }}'
      const otherwise = random() < 0.5 ? (branch: AnyBuilder) => step(branch, racing, false) : undefined
      return builder.condition(name('condition'), expression, otherwise)
    }
    return step(builder, racing, false)
  }

  function path(builder: AnyBuilder, parts: number, depth: number, racing: boolean): AnyBuilder {
    let built = step(builder, racing, false)
    for (let made = 1; made < parts; made++) built = part(built, depth, racing)
    return built
  }

  let builder = defineWorkflow('test', `generated-${seed}`) as unknown as AnyBuilder
  const parts = 1 + Math.floor(random() * 3)
  for (let made = 0; made < parts; made++) {
    builder = path(builder, 1 + Math.floor(random() * 2), 2, false)
    if (random() < 0.15) {
      const point = name('save')
      builder = builder.savePoint(point)
      for (const points of saved.values()) points.push(point)
    }
  }
  builder = step(builder, false, true)
  return { workflow: builder.build(), raced, saved }
}
