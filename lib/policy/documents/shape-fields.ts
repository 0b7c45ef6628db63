import type * as z from 'zod';
import type { Path } from './report.ts';

/** The names of the fields that a shape knows at a path; empty where it leads out of objects. */
export function fieldsAt(shape: z.ZodType, path: Path): readonly string[] {
  let current: z.core.$ZodType | undefined = shape;
  for (const key of path) {
    const inner = unwrapShape(current);
    current = inner?._zod.def.type === 'array' ? (inner as z.core.$ZodArray)._zod.def.element : fieldOf(inner, key);
  }
  return Object.keys(objectShape(unwrapShape(current)) ?? {});
}

function fieldOf(shape: z.core.$ZodType | undefined, key: string | number): z.core.$ZodType | undefined {
  const fields = objectShape(shape);
  return fields !== undefined && Object.hasOwn(fields, key) ? fields[key] : undefined;
}

function objectShape(shape: z.core.$ZodType | undefined): Record<string | number, z.core.$ZodType> | undefined {
  return shape?._zod.def.type === 'object' ? (shape as z.core.$ZodObject)._zod.def.shape : undefined;
}

function unwrapShape(shape: z.core.$ZodType | undefined): z.core.$ZodType | undefined {
  let current = shape;
  for (;;) {
    const type = current?._zod.def.type;
    if (type === 'optional' || type === 'default') current = (current as z.core.$ZodOptional)._zod.def.innerType;
    else if (type === 'pipe') current = (current as z.core.$ZodPipe)._zod.def.out;
    else return current;
  }
}
