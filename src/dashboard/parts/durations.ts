/** Spans of time in milliseconds. */
const minute = 60_000

export const DurationMs = { minute, hour: 60 * minute, day: 24 * 60 * minute } as const
