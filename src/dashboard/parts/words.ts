/** Times, spans and names as people read them. */

const second = 1_000
const minute: number = 60 * second
const hour: number = 60 * minute

export const SPAN_MS = { second, minute, hour, day: 24 * hour } as const

/** `1.4 s`, `42 s`, `3 m 05 s`, `2 h 10 m`, `3 d 4 h`. */
export function spanText(ms: number): string {
  const span = Math.max(0, ms)
  if (span < 10 * SPAN_MS.second) return `${(Math.floor(span / 100) / 10).toFixed(1)} s`
  if (span < SPAN_MS.minute) return `${Math.floor(span / SPAN_MS.second)} s`
  if (span < SPAN_MS.hour)
    return pair(span, { unit: SPAN_MS.minute, part: SPAN_MS.second, names: ['m', 's'] })
  if (span < SPAN_MS.day)
    return pair(span, { unit: SPAN_MS.hour, part: SPAN_MS.minute, names: ['h', 'm'] })
  return pair(span, { unit: SPAN_MS.day, part: SPAN_MS.hour, names: ['d', 'h'] })
}

/** The same in whole units, for what changes all the time and need not be exact. */
export function roundSpanText(ms: number): string {
  const span = Math.max(0, ms)
  if (span < SPAN_MS.minute) return `${Math.floor(span / SPAN_MS.second)} s`
  if (span < SPAN_MS.hour) return `${Math.floor(span / SPAN_MS.minute)} m`
  if (span < SPAN_MS.day) return `${Math.floor(span / SPAN_MS.hour)} h`
  return `${Math.floor(span / SPAN_MS.day)} d`
}

interface Pair {
  readonly unit: number
  readonly part: number
  readonly names: readonly [string, string]
}

function pair(span: number, { unit, part, names: [large, small] }: Pair): string {
  const rest = String(Math.floor((span % unit) / part)).padStart(2, '0')
  return `${Math.floor(span / unit)} ${large} ${rest} ${small}`
}

const CLOCK = new Intl.DateTimeFormat(undefined, { timeStyle: 'medium' })
const DAY_AND_CLOCK = new Intl.DateTimeFormat(undefined, {
  dateStyle: 'medium',
  timeStyle: 'medium',
})

export function clockText(atMs: number): string {
  return CLOCK.format(atMs)
}

export function momentText(atMs: number): string {
  return DAY_AND_CLOCK.format(atMs)
}

const COUNT = new Intl.NumberFormat()

export function countText(count: number): string {
  return COUNT.format(count)
}

export function plural(count: number, word: string): string {
  return `${countText(count)} ${word}${count === 1 ? '' : 's'}`
}

/** Characters that cannot be seen, or that change the direction of the text around them. */
const UNSEEN = /[\u00ad\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]/g

/** A name as it is shown: what would disguise it is spelt out. It is never anything but text. */
export function visibleName(name: string): string {
  return name.replaceAll(UNSEEN, (character) => {
    return `⟨U+${(character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0')}⟩`
  })
}

/** Without its middle, if it is longer: names that begin alike, such as paths, are told apart by their ends. */
export function shortName(name: string, charactersMax: number): string {
  if (name.length <= charactersMax) return name
  const head = Math.floor(charactersMax / 4)
  return `${name.slice(0, head)}…${name.slice(head + 1 - charactersMax)}`
}
