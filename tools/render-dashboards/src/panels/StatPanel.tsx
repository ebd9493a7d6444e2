import { type FieldDisplay, getDisplayValueAlignmentFactors, getFieldDisplayValues, type PanelProps, VizOrientation } from '@grafana/data';
import { BigValue, BigValueTextMode, useTheme2, VizRepeater, type VizRepeaterRenderValueProps } from '@grafana/ui';

export const StatPanel = (panel: PanelProps<any>) => {
  const theme = useTheme2();
  const { options, fieldConfig, data, timeZone, replaceVariables, width, height, renderCounter } = panel;
  const getValues = () =>
    getFieldDisplayValues({
      fieldConfig,
      reduceOptions: options.reduceOptions,
      replaceVariables,
      theme,
      data: data.series,
      sparkline: options.graphMode !== 'none',
      timeZone,
    });
  const named = options.textMode === BigValueTextMode.Auto && (fieldConfig.defaults.displayName || !panel.title);
  const renderValue = ({ value, alignmentFactors, width, height, count }: VizRepeaterRenderValueProps<FieldDisplay, any>) => (
    <BigValue
      value={value.display}
      count={count}
      sparkline={value.sparkline}
      colorMode={options.colorMode}
      graphMode={options.graphMode}
      justifyMode={options.justifyMode}
      textMode={named ? BigValueTextMode.ValueAndName : options.textMode}
      alignmentFactors={alignmentFactors}
      text={options.text}
      width={width}
      height={height}
      theme={theme}
      disableWideLayout={!options.wideLayout}
    />
  );
  return (
    <VizRepeater
      getValues={getValues}
      getAlignmentFactors={getDisplayValueAlignmentFactors}
      renderValue={renderValue}
      width={width}
      height={height}
      source={data}
      itemSpacing={3}
      renderCounter={renderCounter}
      autoGrid
      orientation={options.orientation ?? VizOrientation.Auto}
    />
  );
};
