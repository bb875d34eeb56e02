import type { ResolveHook } from 'node:module'

/** Resolves the package of the embedded server to its stand-in, and everything else as usual. */
export const resolve: ResolveHook = (specifier, context, next) =>
  specifier === '@holdfast/embedded'
    ? { url: new URL('./embedded.js', import.meta.url).href, shortCircuit: true }
    : next(specifier, context)
