// What is in flight in the fixture, as it was written for the release before. `old` says in which release this runs: there calls
// hang, fail or are refused by their name; afterwards they all succeed.

import {
  BusinessError,
  defineCommand,
  defineDispatch,
  defineManager,
  defineProcess,
  defineWorkflow,
  PermanentError,
  processTarget,
  stepCommand,
  TransientError,
  workflowTarget,
} from 'holdfast'
import pg from 'pg'
import { z } from 'zod'

export const hang = () => new Promise(() => setInterval(() => undefined, 60_000))

export function definitions(connectionString) {
  const pool = new pg.Pool({ connectionString, max: 3 })
  const note = (work, call) => pool.query('insert into public.effect (work, call) values ($1, $2)', [work, call])
  const noted = async (work, call) =>
    (await pool.query('select from public.effect where work = $1 and call = $2', [work, call])).rowCount > 0
  const is = (work, kind) => work.startsWith(kind)
  const Work = z.object({ work: z.string() })

  const Pay = defineCommand('upgrade', 'Pay', { data: Work, result: z.object({ paid: z.string() }) })
  const Once = defineCommand('upgrade', 'Once', {
    data: Work,
    atMostOnce: true,
    result: z.object({ paid: z.string() }),
  })
  async function pay({ work }) {
    if (is(work, 'c-killed') || is(work, 'p-command') || is(work, 'm-killed')) await hang()
    if (is(work, 'c-troubled')) throw new PermanentError('refused in the release before', { code: 'REFUSED' })
    if (is(work, 'c-retry')) throw new TransientError('not yet')
    await note(work, 'pay')
    return { paid: work }
  }

  const told = {
    approved: {
      data: z.object({ by: z.string() }),
      apply(state, { by }) {
        state.by = by
      },
    },
  }
  const Child = defineProcess('upgrade', 'Child', {
    state: Work.extend({ by: z.string().optional() }),
    responses: told,
    async execute(ctx, state) {
      await ctx.step('inner', { run: () => note(state.work, 'inner').then(() => 'inner') })
      await ctx.wait('approval', () => state.by !== undefined, { timeout: '3650d' })
      return state.by
    },
  })
  const Payment = defineProcess('upgrade', 'Payment', {
    state: Work.extend({ by: z.string().optional() }),
    responses: told,
    async execute(ctx, state) {
      const { work } = state
      await ctx.step('book', {
        run: () => note(work, 'book').then(() => ({ booked: work })),
        async compensate() {
          throw new TransientError('cannot be undone in the release before')
        },
        compensateMaxAttempts: 100,
        compensateRetryDelay: '1s',
      })
      if (is(work, 'p-undo')) throw new BusinessError('not to be', { code: 'NOT_TO_BE' })
      if (is(work, 'p-killed')) await ctx.step('slow', { run: hang, timeout: '1h' })
      if (is(work, 'p-unknown')) {
        await ctx.step('pay', {
          run: () => note(work, 'pay').then(hang),
          atMostOnce: true,
          inquire: async () => ((await noted(work, 'pay')) ? { done: 'paid' } : 'notDone'),
          timeout: '1h',
        })
      }
      if (is(work, 'p-retry')) {
        await ctx.step('flaky', {
          run() {
            throw new TransientError('not yet')
          },
          maxAttempts: 1000,
          retryDelay: '1s',
        })
      }
      if (is(work, 'p-troubled')) {
        await ctx.step('submit', {
          run() {
            throw new PermanentError('refused in the release before', { code: 'REFUSED' })
          },
        })
      }
      if (is(work, 'p-sleep')) await ctx.sleep('nap', '5s')
      if (is(work, 'p-parent'))
        await ctx.child('child', Child, { work: `${work} child` }, { key: `${work} child`, timeout: '3650d' })
      if (is(work, 'p-command')) await ctx.command('pay', Pay, { work }, { timeout: '3650d' })
      if (is(work, 'p-wait') || is(work, 'p-inbox')) {
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
    execute: (ctx, { work }) => ctx.step('run', { run: () => note(work, 'run').then(() => work) }),
  })

  const Order = defineManager('upgrade', 'Order', {
    state: Work.extend({ paid: z.array(z.string()).default([]) }),
    steps: ['reserve', 'charge'],
    firstStep: () => 'reserve',
    command: (step, { work }) => stepCommand(Pay, { work: step === 'reserve' ? `${step} ${work}` : `${work} ${step}` }),
    onReply: (state, step) => ({ ...state, paid: [...state.paid, step] }),
    nextStep: (step) => (step === 'reserve' ? 'charge' : null),
  })

  const Shipping = defineWorkflow('shipping', 1)
    .step('reserve', 'Reserve')
    .onFailure('release', 'Release', { maxAttempts: 1000, retry: { kind: 'fixed', delay: '1s' } })
    .fork(
      'parts',
      (b) => b.step('pack', 'Pack'),
      (b) => b.step('bill', 'Bill', { maxAttempts: 1000, retry: { kind: 'fixed', delay: '1s' } }),
    )
    .join('ready', 'all')
    .step('ship', 'Ship')
    .build()
  const Approval = defineWorkflow('approval', 1)
    .step('check', 'Check')
    .waitHumanConfirm('approve')
    .step('pay', 'PayOut')
    .build()
  const Letters = defineWorkflow('letters', 1, { dlq: true })
    .step('transfer', 'Transfer')
    .step('thank', 'Thank')
    .build()
  const handlers = {
    Reserve: (it) => note(it.work, 'reserve').then(() => it),
    Release: async () => {
      throw new TransientError('not yet')
    },
    async Pack(it) {
      if (is(it.work, 'w-killed')) await hang()
      await note(it.work, 'pack')
      return it
    },
    async Bill(it) {
      if (is(it.work, 'w-retry')) throw new TransientError('not yet')
      await note(it.work, 'bill')
      return it
    },
    async Ship() {
      throw new PermanentError('cannot be shipped')
    },
    Check: (it) => note(it.work, 'check').then(() => it),
    PayOut: (it) => note(it.work, 'payOut').then(() => it),
    async Transfer() {
      throw new PermanentError('refused in the release before', { code: 'REFUSED' })
    },
    Thank: (it) => note(it.work, 'thank').then(() => it),
  }

  const Settle = defineProcess('upgrade', 'Settle', {
    state: Work.extend({ by: z.string().optional() }),
    responses: told,
    async execute(ctx, state) {
      await ctx.step('transfer', { run: () => note(state.work, 'transfer').then(() => 'sent') })
      await ctx.wait('confirmation', () => state.by !== undefined, { timeout: '3650d' })
      return state.work
    },
  })
  const config = { batchSize: 100, dispatchIntervalSecs: 0.2, jitterWindowMs: 0 }
  const Settlement = defineDispatch('settlement', { target: processTarget(Settle), config })
  const Approvals = defineDispatch('approvals', { target: workflowTarget(Approval), config })
  const Remote = defineDispatch('remote', {
    context: Work,
    config: { ...config, maxDispatchRetries: 1 },
    callTimeout: '1h',
    target: {
      name: 'elsewhere',
      async start(items) {
        const outcomes = []
        for (const { executionId, context } of items) {
          if (is(context.work, 'r-dead'))
            outcomes.push({ failed: new PermanentError('refused there', { code: 'REFUSED' }) })
          else {
            await pool.query('insert into public.remote (id, work) values ($1, $2)', [executionId, context.work])
            if (is(context.work, 'r-lost')) await hang()
            outcomes.push('started')
          }
        }
        return outcomes
      },
      describe: async (ids) => ids.map(() => ({ status: 'RUNNING' })),
    },
  })
  return {
    pool,
    pay,
    Pay,
    Once,
    note,
    noted,
    Child,
    Payment,
    Paused,
    Order,
    Shipping,
    Approval,
    Letters,
    handlers,
    Settle,
    Settlement,
    Approvals,
    Remote,
  }
}
