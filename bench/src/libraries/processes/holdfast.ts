import { defineProcess, holdfast } from 'holdfast'
import { versionOf } from '../../harness/version.js'
import { withClient } from '../../harness/with-client.js'
import { chunksOf } from '../payload.js'
import { noCheck } from './no-check.js'
import { type Body, PROCESS, type ProcessHost, type ProcessLibrary } from './process-library.js'

interface Config {
  readonly concurrency: number
}

interface BenchState {
  place: number
  answer?: string
}

/** Fenced, with history, audit and state. */
export function holdfastProcesses(config: Config): readonly ProcessLibrary[] {
  return [
    {
      name: 'holdfast',
      version: versionOf('holdfast'),
      role: 'holdfast',
      config: { ...config },
      anythingLeft: "select exists (select from holdfast.process where status <> 'COMPLETED')",
      waiting: "select count(*)::int from holdfast.process where status = 'WAITING_FOR_ASYNC'",
      // The first to open it installs it.
      install: async (connectionString) => (await holdfast({ connectionString })).close(),
      fill,
      open: (connectionString, body) => open(connectionString, body, config),
    },
  ]
}

function define(body: Body) {
  return defineProcess('bench', PROCESS, {
    state: noCheck<BenchState>(),
    responses: {
      answered: {
        data: noCheck<string>(),
        apply: (state, answer) => {
          state.answer = answer
        },
      },
    },
    execute: (ctx, state) =>
      body(
        {
          step: (name) => ctx.step(name, async () => 1),
          response: () => ctx.wait('answer', () => state.answer !== undefined, { timeout: '1h' }),
        },
        state.place,
      ),
  })
}

async function fill(connectionString: string, processes: number, from: number): Promise<void> {
  const hf = await holdfast({ connectionString })
  try {
    const definition = define(async () => undefined)
    for (const chunk of chunksOf(processes)) {
      await hf.startMany(
        definition,
        chunk.map(({ place }) => ({ input: { place: from + place } })),
      )
    }
  } finally {
    await hf.close()
  }
}

async function open(connectionString: string, body: Body, { concurrency }: Config): Promise<ProcessHost> {
  const hf = await holdfast({ connectionString })
  const definition = define(body)
  hf.register(definition)
  let ids: readonly string[] = []
  return {
    async run() {
      await hf.run({ concurrency })
    },
    start: async (place) => (await hf.start(definition, { place })).id,
    ended: (id) => hf.process(definition, id).result({ timeout: '1m' }),
    async learnIds() {
      ids = await idsOf(connectionString)
    },
    // Calls at the same moment share a statement.
    async respondAll() {
      await Promise.all(
        ids.map((id) => hf.process(definition, id).respond('answered', 'yes', { responseId: `answer-${id}` })),
      )
    },
    close: () => hf.close(),
  }
}

function idsOf(connectionString: string): Promise<string[]> {
  return withClient(connectionString, async (client) => {
    const { rows } = await client.query<{ id: string }>(
      "select id from holdfast.process where status = 'WAITING_FOR_ASYNC'",
    )
    return rows.map(({ id }) => id)
  })
}
