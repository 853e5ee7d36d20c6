/** What Prometheus reads, as far as the page shows it: how long the store takes, what was refused, what failed. */

export interface Sample {
  readonly name: string
  readonly labels: Readonly<Record<string, string>>
  readonly value: number
}

const LINE = /^([a-z_]+)(?:\{([^}]*)\})? (\S+)$/
const LABEL = /(\w+)="([^"]*)"/g

export function readSamples(text: string): readonly Sample[] {
  return text.split('\n').flatMap((line) => {
    const [, name, labels = '', value] = LINE.exec(line) ?? []
    if (name === undefined || value === undefined) return []
    const named = [...labels.matchAll(LABEL)].map(([, key = '', word = '']) => [key, word])
    return [
      { name, labels: Object.fromEntries(named) as Record<string, string>, value: Number(value) },
    ]
  })
}

export interface CallLatency {
  readonly call: string
  readonly count: number
  /** Seconds within which so many of the calls were answered, as far as the buckets tell. */
  readonly half: number
  readonly most: number
}

const MOST = 0.95

/** Of each call of the store since the server was started, the most frequent first. */
export function latenciesIn(samples: readonly Sample[]): readonly CallLatency[] {
  const buckets = new Map<string, { readonly bound: number; readonly count: number }[]>()
  for (const { name, labels, value } of samples) {
    const { call, le } = labels
    if (name !== 'tenure_store_seconds_bucket' || call === undefined || le === undefined) continue
    const bound = le === '+Inf' ? Infinity : Number(le)
    buckets.set(call, [...(buckets.get(call) ?? []), { bound, count: value }])
  }
  return [...buckets]
    .map(([call, own]) => {
      const count = own.at(-1)?.count ?? 0
      const within = (share: number): number => {
        return own.find((bucket) => bucket.count >= share * count)?.bound ?? Infinity
      }
      return { call, count, half: within(0.5), most: within(MOST) }
    })
    .filter(({ count }) => count > 0)
    .toSorted((one, other) => other.count - one.count)
}

export interface Counted {
  readonly label: string
  readonly value: number
}

/** A counter by one of its labels, without zeros, the greatest first. */
export function countsIn(
  samples: readonly Sample[],
  name: string,
  label: string,
): readonly Counted[] {
  return samples
    .filter((sample) => sample.name === name && sample.value > 0)
    .map(({ labels, value }) => ({ label: labels[label] ?? '', value }))
    .toSorted((one, other) => other.value - one.value)
}
