/** Tests, and what several test files share. */
const tests = '\\.(test|fixture)\\.ts$'

/** The import directions of the house (ARCHITECTURE.md): who may import whom. */
const model = (name, mayImport) => ({
  name: `${name}-imports-only-below`,
  comment: `engine/${name} may import ${mayImport.join(', ')} and itself`,
  severity: 'error',
  from: { path: `^packages/engine/src/${name}/`, pathNot: tests },
  to: { path: '^packages/engine/src/', pathNot: `^packages/engine/src/(${[name, ...mayImport].join('|')})/` },
})

module.exports = {
  forbidden: [
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
          '^packages/[^/]+/src/(index|internal)\\.ts$',
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
