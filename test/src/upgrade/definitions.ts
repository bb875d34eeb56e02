import {
  BusinessError,
  defineCommand,
  defineDispatch,
  defineManager,
  defineProcess,
  defineWorkflow,
  type Holdfast,
  processTarget,
  stepCommand,
  workflowTarget,
} from 'holdfast'
import pg from 'pg'
import { z } from 'zod'

const Work = z.object({ work: z.string() })
type Work = z.infer<typeof Work>

/**
 * The definitions of the fixture, as they are written for this release. Where the release before hung, failed or was refused
 * (release-1/definitions.mjs), these succeed. Every effect is a row of public.effect, which came with the fixture.
 */
export function definitionsOf(connectionString: string) {
  const pool = new pg.Pool({ connectionString, max: 3 })
  const note = async (work: string, call: string) => {
    await pool.query('insert into public.effect (work, call) values ($1, $2)', [work, call])
  }
  const noted = async (work: string, call: string) =>
    (await pool.query('select from public.effect where work = $1 and call = $2', [work, call])).rowCount !== 0
  const noting = (call: string) => async (input: unknown) => {
    const it = z.union([Work, z.object({ pack: Work }).transform(({ pack }) => pack)]).parse(input)
    await note(it.work, call)
    return it
  }

  const Pay = defineCommand('upgrade', 'Pay', { data: Work, result: z.object({ paid: z.string() }) })
  const Once = defineCommand('upgrade', 'Once', {
    data: Work,
    atMostOnce: true,
    result: z.object({ paid: z.string() }),
  })
  const pay = async ({ work }: Work) => {
    await note(work, 'pay')
    return { paid: work }
  }

  const State = Work.extend({ by: z.string().optional() })
  const responses = {
    approved: {
      data: z.object({ by: z.string() }),
      apply(state: z.infer<typeof State>, { by }: { by: string }) {
        state.by = by
      },
    },
  }
  const Child = defineProcess('upgrade', 'Child', {
    state: State,
    responses,
    async execute(ctx, state) {
      await ctx.step('inner', () => note(state.work, 'inner'))
      await ctx.wait('approval', () => state.by !== undefined, { timeout: '3650d' })
      return state.by
    },
  })
  const Payment = defineProcess('upgrade', 'Payment', {
    state: State,
    responses,
    async execute(ctx, state) {
      const { work } = state
      const is = (kind: string) => work.startsWith(kind)
      await ctx.step('book', () => note(work, 'book'), {
        compensate: () => note(work, 'unbook'),
        compensateRetry: { maxAttempts: 1000, delay: '1s' },
      })
      if (is('p-undo')) throw new BusinessError('not to be', { code: 'NOT_TO_BE' })
      if (is('p-killed')) await ctx.step('slow', () => note(work, 'slow'), { timeout: '1h' })
      if (is('p-unknown')) {
        await ctx.step('pay', () => note(work, 'pay'), {
          atMostOnce: true,
          inquire: async () => ((await noted(work, 'pay')) ? { done: undefined } : 'notDone'),
          timeout: '1h',
        })
      }
      if (is('p-retry')) {
        await ctx.step('flaky', () => note(work, 'flaky'), { retry: { maxAttempts: 1000, delay: '1s', factor: 1 } })
      }
      if (is('p-troubled')) await ctx.step('submit', () => note(work, 'submit'))
      if (is('p-sleep')) await ctx.sleep('nap', '5s')
      if (is('p-parent')) {
        const child = `${work} child`
        await ctx.child('child', Child, { work: child }, { key: child, timeout: '3650d' })
      }
      if (is('p-command')) await ctx.command('pay', Pay, { work }, { timeout: '3650d' })
      if (is('p-wait') || is('p-inbox')) {
        await ctx.wait('approval', () => state.by !== undefined, { timeout: '3650d' })
      }
      return ctx.transaction('settle', async (tx) => {
        await tx.query('insert into public.effect (work, call) values ($1, $2)', [work, 'settle'])
        return `settled ${work}`
      })
    },
  })
  const Paused = defineProcess('upgrade', 'Paused', {
    state: Work,
    execute: (ctx, { work }) => ctx.step('run', () => note(work, 'run')),
  })
  const Settle = defineProcess('upgrade', 'Settle', {
    state: State,
    responses,
    async execute(ctx, state) {
      await ctx.step('transfer', () => note(state.work, 'transfer'))
      await ctx.wait('confirmation', () => state.by !== undefined, { timeout: '3650d' })
      return state.work
    },
  })

  const Order = defineManager('upgrade', 'Order', {
    state: Work.extend({ paid: z.array(z.string()).default([]) }),
    steps: ['reserve', 'charge'],
    firstStep: () => 'reserve',
    command: (step, { work }) => stepCommand(Pay, { work: step === 'reserve' ? `${step} ${work}` : `${work} ${step}` }),
    onReply: (state, step) => ({ ...state, paid: [...state.paid, step] }),
    nextStep: (step) => (step === 'reserve' ? 'charge' : null),
  })

  const again = { retry: { maxAttempts: 1000, delay: '1s', factor: 1 } } as const
  const Shipping = defineWorkflow('default', 'shipping')
    .step('reserve', 'Reserve')
    .onFailure('release', 'Release', again)
    .fork(
      'parts',
      (b) => b.step('pack', 'Pack'),
      (b) => b.step('bill', 'Bill', again),
    )
    .join('ready', 'all')
    .step('ship', 'Ship')
    .build()
  const Approval = defineWorkflow('default', 'approval')
    .step('check', 'Check')
    .waitHumanConfirm('approve')
    .step('pay', 'PayOut')
    .build()
  const Letters = defineWorkflow('default', 'letters', { dlq: true })
    .step('transfer', 'Transfer')
    .step('thank', 'Thank')
    .build()
  const handlers = ['Reserve', 'Release', 'Pack', 'Bill', 'Ship', 'Check', 'PayOut', 'Transfer', 'Thank']

  const Settlement = defineDispatch('default', 'settlement', { target: processTarget(Settle) })
  const Approvals = defineDispatch('default', 'approvals', { target: workflowTarget(Approval) })
  const Remote = defineDispatch('default', 'remote', {
    context: Work,
    target: {
      name: 'elsewhere',
      async start(items) {
        for (const { executionId, context } of items) {
          await pool.query('insert into public.remote (id, work) values ($1, $2)', [executionId, context.work])
        }
        return items.map(() => 'started')
      },
      /** What was started has completed by now. */
      async describe(ids) {
        const { rows } = await pool.query<{ id: string }>('select id from public.remote where id = any ($1)', [ids])
        const known = new Set(rows.map(({ id }) => id))
        return ids.map((id) => ({ status: known.has(id) ? 'COMPLETED' : 'NOT_FOUND' }))
      },
    },
  })

  return {
    pool,
    Payment,
    Child,
    Paused,
    Settle,
    Order,
    Shipping,
    Approval,
    Letters,
    Settlement,
    Approvals,
    Remote,
    registerAll(hf: Holdfast): void {
      hf.handle(Pay, pay)
      hf.handle(Once, pay, {
        inquire: async ({ work }) => ((await noted(work, 'pay')) ? { done: { paid: work } } : 'notDone'),
      })
      hf.register(Child)
      hf.register(Payment)
      hf.register(Paused)
      hf.register(Settle)
      for (const workflow of [Shipping, Approval, Letters]) hf.register(workflow)
      hf.register(Order)
      hf.register(Settlement)
      hf.register(Approvals)
      hf.register(Remote)
      for (const name of handlers) {
        hf.handle(name, noting(`${name.charAt(0).toLowerCase()}${name.slice(1)}`))
      }
    },
  }
}
