/** Times, spans and names as people read them. */

const SECOND = 1_000
const MINUTE = 60 * SECOND
const HOUR = 60 * MINUTE
const DAY = 24 * HOUR

/** `1.4 s`, `42 s`, `3 m 05 s`, `2 h 10 m`, `3 d 4 h`. */
export function spanText(ms: number): string {
  const span = Math.max(0, ms)
  if (span < 10 * SECOND) return `${(Math.floor(span / 100) / 10).toFixed(1)} s`
  if (span < MINUTE) return `${Math.floor(span / SECOND)} s`
  if (span < HOUR) return pair(span, { unit: MINUTE, part: SECOND, names: ['m', 's'] })
  if (span < DAY) return pair(span, { unit: HOUR, part: MINUTE, names: ['h', 'm'] })
  return pair(span, { unit: DAY, part: HOUR, names: ['d', 'h'] })
}

/** The same in whole units, for what changes all the time and need not be exact. */
export function roundSpanText(ms: number): string {
  const span = Math.max(0, ms)
  if (span < MINUTE) return `${Math.floor(span / SECOND)} s`
  if (span < HOUR) return `${Math.floor(span / MINUTE)} m`
  if (span < DAY) return `${Math.floor(span / HOUR)} h`
  return `${Math.floor(span / DAY)} d`
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

/** Characters that move what stands around them, or cannot be seen. */
const UNSEEN = /[\u00ad\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]/g

/** A name as it is shown: what would disguise it is spelt out. It is never anything but text. */
export function visibleName(name: string): string {
  return name.replaceAll(UNSEEN, (character) => {
    return `⟨U+${(character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0')}⟩`
  })
}
