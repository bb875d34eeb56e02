/** The registry of errors, as far as the page needs it. */
type Registry = Readonly<
  Record<string, { readonly status: number; readonly message: (details: never) => string; readonly next: string }>
>

const header = `# Errors

Every error that Holdfast throws on purpose is a \`HoldfastError\`. Its \`code\` is stable: switch on it. Its \`message\` says what
happened and to what, \`status\` is the HTTP status that fits, and \`next\` says what to do.

This page is made from the registry by \`node scripts/error-reference.mjs\` after a build; do not edit it by hand.`

/**
 * The page docs/reference/errors.md. A script writes it and a test compares it, both from here.
 *
 * @example
 * await writeFile('docs/reference/errors.md', renderErrorReference(errorRegistry))
 */
export function renderErrorReference(registry: Registry): string {
  const codes = Object.entries(registry).sort(([a], [b]) => (a < b ? -1 : 1))
  const sections = codes.map(([code, { status, message, next }]) =>
    [`## ${code}`, `HTTP status ${status}.`, `\`\`\`text\n${sampleMessage(message)}\n\`\`\``, next].join('\n\n'),
  )
  return `${[header, ...sections].join('\n\n')}\n`
}

/** A message with the names of its details in place of their values. Each has details of its own, hence `Reflect`. */
export function sampleMessage(message: (details: never) => string): string {
  const details = new Proxy({}, { get: (_, name) => placeholder(String(name)) })
  return String(Reflect.apply(message, undefined, [details]))
}

/** Stands for one detail, whatever the message does with it: shows it, adds to it, joins it. */
function placeholder(name: string): unknown {
  const show = (hint: string) => (hint === 'default' ? `{${name}} + ` : `{${name}}`)
  const stand: unknown = new Proxy(() => stand, {
    get: (_, property) => (property === Symbol.toPrimitive ? show : stand),
  })
  return stand
}
