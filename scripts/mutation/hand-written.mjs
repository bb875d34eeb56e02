// Mutations that people have thought of: each breaks a promise of the specification, and the named tests must notice.
// `find` stands exactly once in the file (npm run mutate -- --check).
const sql = (name) => `packages/engine/sql/functions/${name}.sql`
const src = (path) => `packages/engine/src/${path}`

export const handWritten = [
  // Claims
  {
    name: 'processes are claimed in reverse order',
    file: sql('processes-claim'),
    find: '        order by due_at\n        limit v_left',
    replace: '        order by due_at desc\n        limit v_left',
    tests: [src('processes/claim-order.test.ts')],
  },
  {
    name: 'commands are claimed in reverse order',
    file: sql('command-queues'),
    find: '            order by q.vt\n            for update skip locked',
    replace: '            order by q.vt desc\n            for update skip locked',
    tests: [src('commands/claim-order.test.ts')],
  },
  {
    name: 'workflow steps are claimed in reverse order of their rank',
    file: sql('workflows-claim'),
    find: 'order by rank, scheduled_at limit least(v_room, v_free[lane.place])',
    replace: 'order by rank desc, scheduled_at limit least(v_room, v_free[lane.place])',
    tests: [src('workflows/priorities.test.ts')],
  },
  {
    name: 'items of dispatch are released in reverse order',
    file: sql('dispatch-release'),
    find: '    order by due_at, seq\n    limit v_most',
    replace: '    order by due_at desc, seq desc\n    limit v_most',
    tests: [src('dispatch/cycle.test.ts')],
  },
  {
    name: 'a claim waits for rows that another one holds',
    file: sql('processes-claim'),
    find: '        limit v_left\n        for no key update skip locked',
    replace: '        limit v_left\n        for no key update',
    tests: ['test/src/processes/races.test.ts', src('processes/claim-order.test.ts')],
  },
  {
    name: 'processes of a paused domain are claimed',
    file: sql('processes-claim'),
    find: "    continue when holdfast.is_paused(array['domain:' || split_part(v_type, '/', 1), 'definition:' || v_type]);",
    replace: '',
    tests: ['test/src/reliability/pausing.test.ts'],
  },
  // Fencing
  {
    name: 'a write of a process does not name its epoch',
    file: sql('processes-write'),
    find: '      and process.lease_epoch = asked.epoch\n',
    replace: '',
    tests: ['test/src/processes/zombies.test.ts', src('processes/processes.test.ts')],
  },
  {
    name: 'a pausing process does not look for new responses',
    file: sql('processes-write'),
    find: 'or process.responses = asked.responses and (process.cancel is null or asked.heard_cancel)\n      )\n',
    replace: 'or (process.cancel is null or asked.heard_cancel)\n      )\n',
    tests: [src('processes/responses.test.ts'), 'test/src/processes/races.test.ts'],
  },
  {
    name: 'a cancel is not heard by a process that pauses',
    file: sql('processes-write'),
    find: 'or process.responses = asked.responses and (process.cancel is null or asked.heard_cancel)\n      )\n',
    replace: 'or process.responses = asked.responses\n      )\n',
    tests: [src('processes/cancel.test.ts'), 'test/src/processes/races.test.ts'],
  },
  {
    name: 'a decision about a workflow ignores the revision it was made on',
    file: sql('workflows-write'),
    find: '    where workflow.id = asked.id and workflow.revision = asked.revision\n',
    replace: '    where workflow.id = asked.id\n',
    tests: ['test/src/workflows/races.test.ts', src('workflows/forks.test.ts')],
  },
  // Batches
  {
    name: 'sealing a batch takes no lock',
    file: src('commands/batches.ts'),
    find: 'select batch_id from holdfast.batch where batch_id = $1 for update\n',
    replace: 'select batch_id from holdfast.batch where batch_id = $1\n',
    tests: [src('commands/batches.test.ts')],
  },
  {
    name: 'a batch that is not sealed is closed',
    file: sql('batches'),
    find: '      and batch.sealed\n',
    replace: '',
    tests: [src('commands/batches.test.ts')],
  },
  {
    name: 'a batch with open items is closed',
    file: sql('batches'),
    find: '      and not exists (select from holdfast.batch_open where batch_open.batch_id = batch.batch_id)\n',
    replace: '',
    tests: [src('commands/batches.test.ts')],
  },
  {
    name: 'commands are sent into a sealed batch',
    file: sql('commands-send'),
    find: '        )) and not sealed\n',
    replace: '        ))\n',
    tests: [src('commands/batches.test.ts')],
  },
  // Commands
  {
    name: "an operator's retry keeps the attempts of a command",
    file: sql('commands-operate'),
    find: "set status = 'PENDING', attempts = 0, uncounted = 0, updated_at = $3",
    replace: "set status = 'PENDING', uncounted = 0, updated_at = $3",
    tests: [src('commands/troubleshooting.test.ts')],
  },
  {
    name: "an operator's retry leaves the error of a command",
    file: sql('commands-operate'),
    find: '            error_kind = null, error_code = null, error_message = null\n',
    replace: '            error_kind = error_kind\n',
    tests: [src('commands/troubleshooting.test.ts')],
  },
  {
    name: 'a finished command is finished again',
    file: sql('commands-finish'),
    find: "        and command.status = 'PENDING'\n",
    replace: '',
    tests: [src('commands/states.test.ts'), src('commands/receive.test.ts')],
  },
  {
    name: 'a failure that is not final is replied to as final',
    file: sql('commands-finish'),
    find: "        'final', outcome <> 'TSQ',",
    replace: "        'final', true,",
    tests: [src('commands/replies.test.ts')],
  },
  // Processes
  {
    name: 'the same response is recorded twice',
    file: sql('processes-respond'),
    find: 'where earlier.process_id = asked.id and earlier.response_id = asked.response_id',
    replace: 'where earlier.process_id = asked.id and false',
    tests: [src('processes/responses.test.ts')],
  },
  {
    name: 'a process whose deadline has passed is retried without a new one',
    file: sql('processes-operate'),
    find: '  if v_deadline <= v_now and not v_unwinding then',
    replace: '  if false then',
    tests: [src('processes/operations-retry.test.ts'), src('processes/deadline.test.ts')],
  },
  {
    name: 'a definition runs more processes than its limit allows',
    file: sql('processes-claim'),
    find: '  if not pg_try_advisory_xact_lock(holdfast.slots_lock(p_type)) then\n    return null;\n  end if;',
    replace: '',
    tests: [src('processes/limits.test.ts'), 'test/src/processes/races.test.ts'],
  },
  // Dispatch
  {
    name: 'the kill switch also takes executions that have begun',
    file: sql('dispatch-config'),
    find: `set due_at = null, queued_at = null where id = any (array( select id from holdfast.process
      where status = 'PENDING' and type = any (v_types) and leased_at is null and lease_epoch = unbegun_epoch`,
    replace: `set due_at = null, queued_at = null where id = any (array( select id from holdfast.process
      where type = any (v_types)`,
    tests: [src('dispatch/kill-switch.test.ts')],
  },
  {
    name: 'a release goes on although the kill switch is off',
    file: sql('dispatch-release'),
    find: '  if not found or not v_config.enabled then',
    replace: '  if not found then',
    tests: [src('dispatch/kill-switch.test.ts'), src('dispatch/cycle.test.ts')],
  },
  {
    name: 'an execution of another try ends an item',
    file: sql('dispatch-end'),
    find: '      and item.execution_id = asked.execution_id\n',
    replace: '',
    tests: [src('dispatch/completion.test.ts')],
  },
  {
    name: 'a technical failure is no failure of its item',
    file: sql('dispatch-end'),
    find: "      when process.status = 'FAILED' and detail.error_code is distinct from 'DEADLINE_EXCEEDED' then 'RETRY'\n",
    replace: '',
    tests: [src('dispatch/completion.test.ts')],
  },
  {
    name: 'a requeued dead letter keeps its count',
    file: sql('dispatch-operate'),
    find: '        retry_count = 0,\n        exec_time = coalesce(p_exec_time, item.exec_time),',
    replace: '        exec_time = coalesce(p_exec_time, item.exec_time),',
    tests: [src('dispatch/completion.test.ts'), src('dispatch/cycle.test.ts')],
  },
  // Rate limits
  {
    name: 'a slot beyond the maximal wait is taken',
    file: sql('limiter'),
    find: 'floor((max_waits_ms[run] * 1000 - first_us) / step_us + 1e-9) + 1',
    replace: 'floor((max_waits_ms[run] * 1000 - first_us) / step_us + 1e-9) + 2',
    tests: [src('limiter/limiter.test.ts'), src('limiter/bound.test.ts')],
  },
  {
    name: 'a bucket begins with one more than its burst',
    file: sql('limiter'),
    find: '      first_us := v_lead - (v_burst - 1) * step_us;',
    replace: '      first_us := v_lead - v_burst * step_us;',
    tests: [src('limiter/limiter.test.ts'), src('limiter/bound.test.ts')],
  },
  // Workflows
  {
    name: 'a lost branch of an any join goes on',
    file: src('workflows/decide/skip.ts'),
    find: 'if (branch !== winner) skipActive(',
    replace: 'if (branch === winner) skipActive(',
    tests: [src('workflows/decide')],
  },
  {
    name: 'the rollback undoes in the order of completion',
    file: src('workflows/decide/rollback.ts'),
    find: '(b.order ?? 0) - (a.order ?? 0)',
    replace: '(a.order ?? 0) - (b.order ?? 0)',
    tests: [src('workflows/decide')],
  },
  // Kernel
  {
    name: 'a lost lease does not abort what runs',
    file: src('kernel/work/leases.ts'),
    find: "        else if (answer === 'lost') lose(lease)\n",
    replace: "        else if (answer === 'lost') skipped += 0\n",
    tests: [src('kernel/work/leases.test.ts')],
  },
  {
    name: 'an unknown outcome is not compensated',
    file: src('kernel/calls/outcome.ts'),
    find: "  if (outcome === 'unknown') return compensateIf !== 'completed'",
    replace: "  if (outcome === 'unknown') return compensateIf === 'attempted'",
    tests: [src('kernel/calls')],
  },
]
