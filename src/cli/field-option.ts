/** Options of the command line that are fields of a request: bounds, default and help are those of the description. */
import { sentenceOf, type Default, type Field } from '../protocol/shape.ts'
import { durationOption, flag, integerOption, textOption, type Option } from './arguments.ts'
import { formatExact } from './duration.ts'

interface Wording {
  /** What the command line says instead of the sentence, or instead of the default. */
  readonly says?: string
  readonly default?: string
}

/** `name` is that of the option, which errors speak of. */
export function fieldOption<Value>(
  name: string,
  field: Field<Value, boolean>,
  wording: Wording = {},
): Option<Value> {
  return { ...plainOption(name, field, helpOf(field, wording)) } as Option<Value>
}

function plainOption(name: string, field: Field<unknown, boolean>, help: string): Option<unknown> {
  const { shape } = field
  const { minimum: min = 0, maximum: max = 0, type, format, enum: words } = shape.schema
  if (shape.unit === 'ms') return durationOption({ field: name, minMs: min, maxMs: max }, help)
  if (type === 'integer') return integerOption({ field: name, min, max }, help)
  if (type === 'boolean') return flag(help)
  const read = (text: string): unknown => shape.read(text, name)
  if (words !== undefined) return { placeholder: 'WORD', help, read }
  return format === 'uuid' ? { placeholder: 'UUID', help, read } : textOption('TEXT', help)
}

/** As the command line speaks: a phrase that begins small, with the default in brackets. */
function helpOf(field: Field<unknown, boolean>, wording: Wording): string {
  const { default: preset, more: _more, ...plain } = field
  const bare = { ...plain, shape: { ...field.shape, schema: {} } }
  const says = wording.says ?? sentenceOf(bare).replace(/\.$/, '').replaceAll('`', '')
  const phrase = says.charAt(0).toLowerCase() + says.slice(1)
  const text = wording.default ?? (preset === undefined ? null : presetText(preset, field))
  return text === null ? phrase : `${phrase} (default: ${text})`
}

function presetText(preset: Default, { shape }: Field<unknown, boolean>): string | null {
  if ('words' in preset) return preset.words.replaceAll('`', '')
  if (preset.value === false) return null
  const isSpan = shape.unit === 'ms' && typeof preset.value === 'number'
  return isSpan ? formatExact(Number(preset.value)) : String(preset.value)
}
