/** The configuration of a store as it holds for each resource, worked out once per kind where no resource has its own. */
import { kindOf, type Resource } from '../core/resource.ts'
import { resolveSettings, type SettingRow, type Settings } from '../core/settings.ts'

const CACHED_MAX = 1_000

export class ResolvedSettings {
  readonly rows: readonly SettingRow[]
  readonly #hasParticular: boolean
  readonly #resolved = new Map<string, Settings>()

  constructor(rows: readonly SettingRow[]) {
    this.rows = rows
    this.#hasParticular = rows.some((row) => row.scope === 'resource')
  }

  for(resource: Resource): Settings {
    const slot = this.#hasParticular ? resource : kindOf(resource)
    const known = this.#resolved.get(slot)
    if (known !== undefined) return known
    const settings = resolveSettings(this.rows, resource)
    if (this.#resolved.size >= CACHED_MAX) this.#resolved.clear()
    this.#resolved.set(slot, settings)
    return settings
  }
}
