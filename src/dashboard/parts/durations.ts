/** Spans of time in milliseconds. */
const second = 1_000
const minute: number = 60 * second
const hour: number = 60 * minute

export const SPAN_MS = { second, minute, hour, day: 24 * hour } as const
