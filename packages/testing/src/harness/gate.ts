/**
 * Something to wait for until the test opens it.
 *
 * @example
 * const bank = gate()
 * run: () => bank.passed
 * bank.open()
 */
export function gate(): { readonly passed: Promise<void>; open(): void } {
  let open = () => {}
  const passed = new Promise<void>((resolve) => {
    open = resolve
  })
  return { passed, open: () => open() }
}
