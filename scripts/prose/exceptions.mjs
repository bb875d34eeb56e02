/**
 * Words that are right where they stand although the glossary or the dictionary says otherwise: the file or folder, the word as
 * it is reported, and the reason.
 *
 * @type {readonly { path: string, word: string, reason: string }[]}
 */
export const exceptions = []
