import { expect, test } from 'vitest'
import type { EffectEvent } from './event.js'
import { describeFinding, type EffectEnd, effectFindings } from './law.js'

type Told = `${EffectEvent['what']}${'' | `/${string}`}`

/** `made/k2`: under another idempotency key than the first. */
const events = (told: readonly Told[], once = false): EffectEvent[] =>
  told.map((one) => {
    const [what = '', idempotencyKey = 'k1'] = one.split('/')
    return { execution: 'e', name: 'charge', what: what as EffectEvent['what'], idempotencyKey, once }
  })

const problems = (told: readonly Told[], end: EffectEnd, once = false) =>
  effectFindings(events(told, once), () => end).map(({ problem }) => problem)

test.each<[string, readonly Told[], EffectEnd, readonly string[]]>([
  ['kept', ['called', 'made', 'answered'], 'kept', []],
  ['kept after a lost answer and a repetition', ['called', 'made', 'called', 'made', 'answered'], 'kept', []],
  ['undone', ['called', 'made', 'answered', 'undone'], 'undone', []],
  [
    'undone twice under the same key, because the first answer was lost',
    ['called', 'made', 'undone', 'undone'],
    'undone',
    [],
  ],
  ['refused', ['called', 'refused'], 'undone', []],
  ['never made, undone to be sure', ['called', 'undone'], 'undone', []],
  ['forgotten', ['called', 'made'], 'undone', ['forgotten']],
  ['undone although the execution completed', ['called', 'made', 'answered', 'undone'], 'kept', ['lost']],
  ['either way is right', ['called', 'made', 'answered'], 'either', []],
  ['undone by two undos', ['called', 'made', 'undone/a', 'undone/b'], 'undone', ['undone twice']],
  ['made under two keys', ['called/a', 'made/a', 'called/b', 'made/b'], 'kept', ['made twice']],
  ['made after its undo', ['called', 'undone', 'made'], 'undone', ['made after undo']],
  ['not ended', ['called', 'made'], 'open', ['not ended']],
])('K-19 an effect that is %s', (_, told, end, expected) => {
  expect(problems(told, end)).toEqual(expected)
})

test.each<[string, readonly Told[], readonly string[]]>([
  ['once', ['called', 'made', 'answered'], []],
  ['again after a refusal', ['called', 'refused', 'called', 'made', 'answered'], []],
  ['again after an inquiry found nothing', ['called', 'inquired', 'called', 'made', 'answered'], []],
  ['again although nobody knew', ['called', 'called', 'made'], ['repeated blindly']],
  ['again after it was made', ['called', 'made', 'called', 'made'], ['made twice', 'repeated blindly']],
])('K-20 a call that must not be repeated is made %s', (_, told, expected) => {
  expect(problems(told, 'kept', true)).toEqual(expected)
})

test('a finding reads as a sentence', () => {
  const [finding] = effectFindings(events(['called', 'made']), () => 'undone')
  expect(finding && describeFinding(finding)).toBe('forgotten: charge of e (called, made)')
})
