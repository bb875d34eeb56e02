/** Tests, and what several test files share. */
const tests = '\\.(test|fixture)\\.ts$'

/** Which folder may import which (ARCHITECTURE.md, "Folders"). */
const model = (name, mayImport) => ({
  name: `${name}-imports-only-below`,
  comment: `engine/${name} may import ${mayImport.join(', ')} and itself`,
  severity: 'error',
  from: { path: `^packages/engine/src/${name}/`, pathNot: tests },
  to: { path: '^packages/engine/src/', pathNot: `^packages/engine/src/(${[name, ...mayImport].join('|')})/` },
})

/** The folders of the engine from top to bottom. Each imports only folders below it, so that they form no circles. */
const folders = [
  'dispatch',
  'dispatch/cycle',
  'dispatch/queries',
  'dispatch/targets',
  'processes',
  'processes/managers',
  'processes/execution',
  'processes/replies',
  'processes/queries',
  'workflows',
  'workflows/queries',
  'workflows/render',
  'workflows/store',
  'workflows/decide',
  'workflows/definition',
  'workflows/condition',
  'commands',
  'commands/queries',
  'trouble',
  'trouble/queries',
  'limiter',
  'limiter/queries',
  'queue',
  'queue/install',
  'kernel/migrations',
  'kernel/model',
  'kernel/batching',
  'kernel/chores',
  'kernel/clock',
  'kernel/pausing',
  'kernel/audit',
  'kernel/presence',
  'kernel/reports',
  'kernel/results',
  'kernel/notify',
  'kernel/work',
  'kernel/database',
  'kernel/calls',
  'kernel/failure',
  'kernel/codec',
  'kernel/ids',
  'kernel/retry',
  'kernel/validation',
  'kernel/duration',
  'kernel',
  'kernel/errors',
  'kernel/metrics',
]

/**
 * What a folder may import from above all the same, file by file. Most are the words of a model, which stand in its root in every
 * model (`define.ts`, `states.ts`) and import nothing of its rooms. The others are to be dissolved; each says how.
 */
const upwards = {
  'commands/queries': ['commands/(batch|envelope|states|why)'],
  'dispatch/cycle': ['dispatch/(define|reference|targets)'],
  'dispatch/queries': ['dispatch/(define|forecast|reference|settings|settings-record|states|targets)'],
  'limiter/queries': ['limiter/(bucket-status|check-limit|merged-requests)'],
  'processes/execution': ['processes/(context|define|history|refused|report|settings|states|step-failed)'],
  // Managers share the start, the registry and the reports of processes; these belong into a room of their own.
  'processes/managers': ['processes/(define|handle|history|refused|registry|report|encode-start|start-many|states)'],
  // Rows are typed by what is decided and by what replies hold; the types belong beside the statements.
  'processes/queries': ['processes/(history|refused|states)', 'processes/managers/decide', 'processes/replies/message'],
  // Recorded replies are responses; the recorder belongs beside respond.ts.
  'processes/replies': ['processes/(define|respond)'],
  'trouble/queries': ['trouble/filter'],
  'workflows/decide': ['workflows/states'],
  'workflows/queries': ['workflows/(states|why)'],
  'workflows/render': ['workflows/states'],
  // The type of a claimed step; it belongs into the store.
  'workflows/store': ['workflows/states', 'workflows/queries/claim-steps'],
  // The names of the models.
  'kernel/errors': ['kernel/models'],
  // How a value is shown in a message. It imports nothing.
  'kernel/duration': ['kernel/validation/describe'],
}

const inOrder = folders.slice(1).map((folder, place) => ({
  name: `folders-form-no-circles: ${folder}`,
  comment: `${folder} stands below what it imports; see the order of the folders in .dependency-cruiser.cjs`,
  severity: 'error',
  from: { path: `^packages/engine/src/${folder}/[^/]+$`, pathNot: tests },
  to: {
    path: `^packages/engine/src/(${folders.slice(0, place + 1).join('|')})/[^/]+$`,
    pathNot: (upwards[folder] ?? []).map((file) => `^packages/engine/src/${file}\\.ts$`),
  },
}))

module.exports = {
  forbidden: [
    ...inOrder,
    {
      name: 'folders-have-a-place',
      comment: 'a new folder of the engine gets its place in the order of .dependency-cruiser.cjs',
      severity: 'error',
      from: {},
      to: {
        path: '^packages/engine/src/.+/',
        pathNot: [...folders.map((folder) => `^packages/engine/src/${folder}/[^/]+$`), '/workflows/simulation/'],
      },
    },
    { name: 'no-circular', severity: 'error', from: {}, to: { circular: true } },
    { name: 'no-unresolvable', severity: 'error', from: {}, to: { couldNotResolve: true } },
    model('kernel', []),
    model('queue', ['kernel']),
    model('limiter', ['kernel']),
    model('commands', ['queue', 'kernel']),
    model('processes', ['commands', 'limiter', 'kernel']),
    model('workflows', ['limiter', 'kernel']),
    model('trouble', ['kernel']),
    model('dispatch', ['processes', 'workflows', 'limiter', 'kernel']),
    {
      name: 'models-use-the-kernel-through-its-model-room',
      comment: 'what the kernel gives a model is in kernel/model/index.ts; its pure rooms are imported directly',
      severity: 'error',
      from: {
        path: '^packages/engine/src/(commands|processes|workflows|dispatch|trouble)/',
        pathNot: [tests, '/simulation/'],
      },
      to: {
        path: '^packages/engine/src/kernel/',
        pathNot:
          '^packages/engine/src/kernel/(model/index\\.ts$|errors|retry/|duration/|codec/|ids/|failure/|validation/)',
      },
    },
    {
      name: 'pure-kernel-rooms-do-no-io',
      comment: 'retry, duration, codec, ids, failure and validation are pure: no database, no timers, no files',
      severity: 'error',
      from: {
        path: '^packages/engine/src/kernel/(retry|duration|codec|ids|failure|validation)/',
        pathNot: tests,
      },
      to: {
        path: '^(packages/engine/src/kernel/(database|migrations|work|batching|notify|audit|chores|pausing)/|node_modules/pg/|(node:)?(fs|net|timers))',
      },
    },
    {
      name: 'packages-by-their-names',
      comment: 'nobody reaches into the folders of another package; what may be used is in its exports',
      severity: 'error',
      from: { path: '^(packages/[^/]+|examples/[^/]+|test|bench)/' },
      to: {
        path: '^(packages/[^/]+|examples/[^/]+|test|bench)/src/',
        pathNot: [
          '^$1/',
          '^packages/[^/]+/src/(index|internal|types)\\.ts$',
          '^examples/payments/src/index\\.ts$',
          '^test/src/tiny-model/index\\.ts$',
        ],
      },
    },
    {
      name: 'engine-knows-nobody-above',
      severity: 'error',
      from: { path: '^packages/(engine|embedded)/src/', pathNot: tests },
      to: { path: '^(packages/(testing|server|cli|console|temporal)|examples|test|bench)/' },
    },
    {
      name: 'embedded-stands-alone',
      severity: 'error',
      from: { path: '^packages/embedded/src/', pathNot: tests },
      to: { path: '^packages/engine/' },
    },
    {
      name: 'no-tests-in-products',
      severity: 'error',
      from: { pathNot: tests },
      to: { path: tests },
    },
  ],
  options: {
    doNotFollow: { path: 'node_modules' },
    exclude: { path: '(^|/)dist/' },
    tsPreCompilationDeps: true,
    tsConfig: { fileName: 'tsconfig.boundaries.json' },
    enhancedResolveOptions: { exportsFields: ['exports'], conditionNames: ['import', 'types', 'default'] },
  },
}
