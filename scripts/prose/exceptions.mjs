/**
 * Words that are right where they stand although the glossary or the dictionary says otherwise: the file or folder, the word as
 * it is reported, and the reason.
 *
 * @type {readonly { path: string, word: string, reason: string }[]}
 */
export const exceptions = [
  { path: 'packages/embedded/src/postmaster/launch.ts', word: 'pre', reason: 'a message of PostgreSQL' },
  { path: 'packages/engine/src/dispatch/queries/find-items.ts', word: 'timestamptz', reason: 'SQL' },
  {
    path: 'packages/engine/src/workflows/render/text.ts',
    word: 'eq',
    reason: 'an operator of conditions, in an example',
  },
]
